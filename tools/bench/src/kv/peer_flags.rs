//! The flags of db_bench (RocksDB 7.8) that set nothing here: those without effect, each with the reason, and those
//! that are refused.
//!
//! A flag that would change the load is refused, since figures of different loads cannot be compared. A flag that tunes
//! RocksDB's own parts has no effect.
//!
//! Checked by `every_flag_of_db_bench_is_known`, where db_bench is installed.

/// Flags that change nothing here: the reason, and the names separated by spaces.
pub(super) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "a family has one buffer beside the one that is flushed, and rows in an ordered index",
        "allow_concurrent_memtable_write arena_block_size cost_write_buffer_to_cache db_write_buffer_size \
         inplace_update_num_locks inplace_update_support max_successive_merges max_write_buffer_number \
         max_write_buffer_number_to_maintain max_write_buffer_size_to_maintain memtable_bloom_size_ratio \
         memtable_insert_with_hint_prefix_size memtable_protection_bytes_per_key memtable_use_huge_page \
         memtable_whole_key_filtering memtablerep min_write_buffer_number_to_merge skip_list_lookahead",
    ),
    (
        "there are no blob files",
        "blob_cache_numshardbits blob_cache_size blob_compaction_readahead_size blob_compression_type \
         blob_db_bytes_per_sync blob_db_compression_type blob_db_enable_gc blob_db_file_size blob_db_gc_cutoff \
         blob_db_is_fifo blob_db_max_db_size blob_db_max_ttl_range blob_db_min_blob_size blob_db_ttl_range_secs \
         blob_file_size blob_file_starting_level blob_garbage_collection_age_cutoff \
         blob_garbage_collection_force_threshold charge_blob_cache enable_blob_files \
         enable_blob_garbage_collection min_blob_size prepopulate_blob_cache use_blob_cache use_blob_db \
         use_shared_block_and_blob_cache",
    ),
    (
        "rows are in memory and nothing is cached",
        "bloom_locality cache_high_pri_pool_ratio cache_index_and_filter_blocks cache_low_pri_pool_ratio \
         cache_numshardbits cache_size cache_type charge_file_metadata charge_filter_construction \
         charge_table_reader compressed_cache_size compressed_secondary_cache_compression_type \
         compressed_secondary_cache_high_pri_pool_ratio compressed_secondary_cache_low_pri_pool_ratio \
         compressed_secondary_cache_numshardbits compressed_secondary_cache_size open_files \
         pin_l0_filter_and_index_blocks_in_cache prepopulate_block_cache read_cache_direct_read \
         read_cache_direct_write read_cache_path read_cache_size row_cache_size secondary_cache_uri simcache_size \
         table_cache_numshardbits use_cache_jemalloc_no_dump_allocator use_cache_memkind_kmem_allocator \
         use_compressed_secondary_cache",
    ),
    (
        "rows are in memory, in no blocks, and tables are read by an open only",
        "adaptive_readahead advise_random_on_open async_io auto_prefix_mode block_align block_restart_interval \
         block_size bloom_bits checksum_type compaction_readahead_size cuckoo_hash_ratio \
         data_block_hash_table_util_ratio enable_index_compression file_checksum format_version hash_bucket_count \
         index_block_restart_interval index_shortening_mode index_with_first_key initial_auto_readahead_size \
         io_uring_enabled log_readahead_size max_auto_readahead_size metadata_block_size mmap_read \
         num_file_reads_for_auto_readahead optimize_filters_for_hits optimize_filters_for_memory \
         optimize_multiget_for_io partition_index partition_index_and_filters pin_top_level_index_and_filter \
         prefix_same_as_start random_access_max_buffer_size read_amp_bytes_per_bit readahead_size \
         total_order_seek use_cuckoo_table use_data_block_hash_index use_direct_reads use_hash_search \
         use_keep_filter use_plain_table use_ribbon_filter verify_checksum whole_key_filtering",
    ),
    (
        "tables are written as one whole, by threads of the engine",
        "bytes_per_sync charge_compression_dictionary_building_buffer check_flush_compaction_key_order \
         compaction_fadvice compaction_pri compaction_style compression_level compression_max_dict_buffer_bytes \
         compression_max_dict_bytes compression_parallel_threads compression_use_zstd_dict_trainer \
         compression_zstd_max_train_bytes delete_obsolete_files_period_micros disable_auto_compactions \
         disable_seek_compaction experimental_mempurge_threshold expire_style fifo_age_for_warm \
         fifo_compaction_allow_compaction fifo_compaction_max_table_files_size_mb fifo_compaction_ttl \
         file_opening_threads force_consistency_checks hard_pending_compaction_bytes_limit \
         level0_file_num_compaction_trigger level0_slowdown_writes_trigger level0_stop_writes_trigger \
         level_compaction_dynamic_level_bytes max_background_compactions max_background_flushes \
         max_bytes_for_level_base max_bytes_for_level_multiplier \
         max_bytes_for_level_multiplier_additional max_compaction_bytes min_level_to_compress mmap_write \
         num_bottom_pri_threads num_deletion_threads num_high_pri_threads num_levels num_low_pri_threads \
         perf_level periodic_compaction_seconds preclude_last_level_data_seconds preserve_internal_time_seconds \
         rate_limit_auto_wal_flush rate_limit_bg_reads rate_limit_user_ops rate_limiter_auto_tuned \
         rate_limiter_bytes_per_sec rate_limiter_refill_period_us sample_for_compression show_table_properties \
         soft_pending_compaction_bytes_limit stats_level subcompactions target_file_size_base \
         target_file_size_multiplier universal_allow_trivial_move universal_compression_size_percent \
         universal_incremental universal_max_merge_width universal_max_size_amplification_percent \
         universal_min_merge_width universal_size_ratio use_direct_io_for_flush_and_compaction wal_bytes_per_sync \
         wal_compression wal_ttl_seconds writable_file_max_buffer_size",
    ),
    (
        "the log has settings of its own, and they are the defaults here",
        "track_and_verify_wals_in_manifest use_fsync wal_size_limit_MB",
    ),
    (
        "writers append side by side, without a lock and without groups",
        "delayed_write_rate enable_pipelined_write enable_write_thread_adaptive_yield unordered_write \
         use_adaptive_mutex write_thread_max_yield_usec write_thread_slow_yield_usec",
    ),
    (
        "every write is a transaction",
        "optimistic_transaction_db transaction_db transaction_lock_timeout transaction_set_snapshot",
    ),
    (
        "counters are kept in any case, and told at the end of each benchmark",
        "confidence_interval_only dump_malloc_stats persist_stats_to_disk print_malloc_stats progress_reports \
         report_bg_io_stats report_open_timing slow_usecs statistics_string stats_dump_period_sec \
         stats_history_buffer_size stats_interval stats_interval_seconds stats_per_interval \
         stats_persist_period_sec thread_status_per_interval",
    ),
    (
        "it is of RocksDB's insides",
        "allow_data_in_errors avoid_flush_during_recovery build_info enable_cpu_prio enable_io_prio enable_numa \
         identity_as_first_hash paranoid_checks stddev use_stderr_info_logger \
         write_batch_protection_bytes_per_key",
    ),
];

/// Flags that ask for a load that is not built.
pub(super) const REFUSED: &str = "backup_dir backup_rate_limit benchmark_read_rate_limit block_cache_trace_file \
    block_cache_trace_max_trace_file_size_in_bytes block_cache_trace_sampling_frequency \
    column_family_distribution deletepercent deletes disposable_entries_batch_size \
    disposable_entries_delete_delay disposable_entries_value_size env_uri expand_range_tombstones \
    finish_after_writes fs_uri iter_k iter_sigma iter_theta key_dist_a key_dist_b key_id_range \
    keyrange_dist_a keyrange_dist_b keyrange_dist_c keyrange_dist_d keyrange_num keys_per_prefix \
    max_num_range_tombstones max_scan_distance merge_keys merge_operator mergereadpercent mix_accesses \
    mix_get_ratio mix_max_scan_len mix_max_value_size mix_put_ratio mix_seek_ratio multiread_batched \
    multiread_stride num_hot_column_families num_multi_db numdistinct ops_between_duration_checks \
    options_file overwrite_probability overwrite_window_size persistent_entries_batch_size \
    persistent_entries_value_size prefix_size range_tombstone_width read_random_exp_range \
    read_with_latest_user_timestamp readonly report_file_operations restore_dir restore_rate_limit \
    reverse_iterator secondary_path secondary_update_interval seek_missing_prefix simulate_hdd \
    simulate_hybrid_fs_file simulate_hybrid_hdd_multipliers sine_a sine_b sine_c sine_d sine_mix_rate \
    sine_mix_rate_interval_milliseconds sine_mix_rate_noise sine_write_rate \
    sine_write_rate_interval_milliseconds time_range trace_file trace_replay_fast_forward \
    trace_replay_threads transaction_sleep truth_db ttl_seconds use_existing_keys use_secondary_db \
    use_single_deletes use_tailing_iterator use_uint64_comparator user_timestamp_size value_k value_sigma \
    value_size_distribution_type value_size_max value_size_min value_theta \
    writes_before_delete_range writes_per_range_tombstone";
