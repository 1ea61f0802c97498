"""Cost models from Collie's sample files, for machines that are no database servers.

Reads the Parquet files that servers write (`samples`), fits ridges and trees to them (`models`), decides whether the samples of several
nodes help each other (`pooling`), and writes packages that servers load (`package`). Nothing here runs in or beside a server.
"""
