-- Regular expressions: which match is found, how it is divided, escapes, classes, look-around, errors, functions.
SELECT substring('foobar' FROM 'foo|foobar'), substring('foobar' FROM '(foo|foobar)(bar)?'), substring('XY1234Z' FROM 'Y*([0-9]{1,3})'), substring('XY1234Z' FROM 'Y*?([0-9]{1,3})');
SELECT regexp_replace('abc', 'b*', 'X', 'g'), regexp_replace('baacb', 'b*', 'X', 'g'), regexp_replace('abc', '(b|(c))', '<\1\2\&\\>', 'g'), regexp_replace('abc', 'x*', '-'), regexp_replace('', 'x*', '-', 'g');
SELECT p, t, regexp_match(t, p) AS groups, regexp_count(t, p) AS times FROM (VALUES
  ('a|ab|abc', 'abcd'), ('(a|ab)(c|bcd)', 'abcd'), ('(a|ab)(bcd|c)(d*)', 'abcd'), ('a??', 'aa'), ('a+?', 'aaa'), ('a+?b', 'aaab'),
  ('(a+?)(a*)', 'aaa'), ('(a+)(a*?)', 'aaa'), ('(?:a+?)(a*)', 'aaa'), ('(a{2}?)(a*)', 'aaaa'), ('(a{1,2}?)(a*)', 'aaaa'),
  ('(a*?|b)c', 'aac'), ('(?:x|(a+?))+', 'aaxa'), ('(a*)*', 'aab'), ('(a*)+', 'aab'), ('(a|b)*', 'abab'), ('(a|(b))*', 'abab'),
  ('(a|(b))*?$', 'abab'), ('((a)|(b))+', 'ab'), ('()?', 'x'), ('(a*?)?', 'b'), ('(a)?', 'b'), ('(a){0}b', 'ab'), ('(a){0,1}?b', 'ab'),
  ('x*', 'aaa'), ('^x*', 'aaa'), ('x*$', 'aaa'), ('.*', E'a\nb'), ('a.c', E'a\nc'), ('(.*?)(b+)', 'aabbb'), ('(.*)(b+)', 'aabbb'), ('(.+?)(b+?)', 'aabbb'),
  ('(ab|a)(bc|c)?', 'abc'), ('(week|wee)(night|knights)', 'weeknights'), ('a?(ab|ba)*', 'ababababa'), ('(a+|b+)+?c', 'aabbc'), ('\d+|\w+', '12ab'),
  ('(\w+)\s+(\w+)', 'hello big world'), ('(?:(\w+)\s*)+', 'one two three'), ('((\w)\w*)', 'word'), ('[^,]*', 'a,b'), ('([^,]*),(.*)', 'a,b,c')
) v (p, t);
SELECT p, t, t ~ p AS matches, regexp_match(t, p) AS groups FROM (VALUES
  ('(a)\1', 'aa'), ('(a*)b\1', 'aabaa'), ('(a*)b\1$', 'aabaa'), ('^(.+)\1$', 'abab'), ('^(.+)\1$', 'ababa'), ('(a|b)\1', 'abba'), ('(\w)\1', 'hello'),
  ('(.)(.)\2\1', 'xabbay'), ('(a)\1{2}', 'aaaa'), ('(ab)\1*', 'ababab'), ('(a?)\1b', 'b'), ('(a)|\1b', 'b'), ('^(?:(a)|b)*\1$', 'aba'), ('((a)b)\2\1', 'abaab'),
  ('a(?=b)', 'ab'), ('a(?=b)', 'ac'), ('a(?!b)', 'ab'), ('a(?!b)', 'ac'), ('(?<=a)b', 'ab'), ('(?<=a)b', 'cb'), ('(?<!a)b', 'ab'), ('(?<!a)b', 'cb'),
  ('(?<=^|,)x', 'a,x'), ('(?<=a.*)c', 'abbc'), ('(?=.*\d)(?=.*[a-z])\w+', 'ab1'), ('(?=(a))a', 'a'), ('foo(?!.*foo)', 'foofoo'), ('(?<!\d)\d\d(?!\d)', '123 45'),
  ('\mfoo\M', 'a foo b'), ('\mfoo\M', 'afoo'), ('\yfoo', 'foo'), ('\Yoo', 'foo'), ('[[:<:]]o', 'foo oo'), ('o[[:>:]]', 'foo oo'), ('\Afoo\Z', 'foo'), ('\Afoo\Z', E'foo\n')
) v (p, t);
SELECT p, t, t ~ p AS matches FROM (VALUES
  ('[[:alpha:]]+', '12'), ('[[:digit:][:space:]]{3}', '1 2'), ('[\d\-x]+$', '1-x'), ('[^\W]', '-'), ('[a-]', '-'), ('[]a]', ']'), ('[^]a]', ']'), ('[[.hyphen.]a]', '-'),
  ('[[=a=]]', 'a'), ('[[.a.]-c]', 'b'), ('\x41\u0042', 'AB'), ('\101', 'A'), ('\\', '\'), ('\B', '\'), ('a{,2}', 'a{,2}'), ('a{2}', 'aa'), ('{', '{'), ('\.', 'x'), ('\e', E'\x1B'),
  ('(?i)ABC', 'abc'), ('(?c)ABC', 'abc'), ('(?x) a b # comment', 'ab'), ('(?q)a.c', 'a.c'), ('(?q)a.c', 'abc'), ('***=a.c', 'abc'), ('***:a.c', 'abc'), ('a(?#x)b', 'ab'),
  ('(?n)^b', E'a\nb'), ('(?n)a.b', E'a\nb'), ('(?p)^b', E'a\nb'), ('(?w)a$', E'a\nb'), ('(?w)a.b', E'a\nb'), ('(?n)[^x]b', E'\nb'), ('(?n)\Wb', E'\nb'), ('', ''), ('a||b', 'b'), ('()', '')
) v (p, t);
SELECT 'ABC' ~* 'b', 'ABC' ~ 'b', 'ABC' !~* 'b', 'ABC' !~ 'b', 'aBc' ~* '[A-B]B', 'aa' ~* '(A)\1', 'aA' ~* '(a)\1', 'aA' ~ '(a)\1', 'x' ~* '[[:upper:]]';
SELECT regexp_match('foobarbequebaz', '(bar)(beque)'), regexp_match('foobarbequebaz', 'barbeque'), regexp_match('abc', 'd(c)?'), regexp_match('abc', 'b(d)?');
SELECT regexp_matches('foobarbequebazilbarfbonk', '(b[^b]+)(b[^b]+)', 'g');
SELECT regexp_matches('abc', 'b*', 'g');
SELECT regexp_split_to_array('the quick brown', '\s+'), regexp_split_to_array('abc', ''), regexp_split_to_array('abc', 'b*'), regexp_split_to_array('aXbxc', 'x', 'i'), regexp_split_to_array('', 'x'), regexp_split_to_array('xax', 'x');
SELECT foo FROM regexp_split_to_table('one, two,three', ',\s*') AS foo;
SELECT regexp_count('abcabc', '^a'), regexp_count('abcabc', 'a', 2), regexp_count('abcabc', '^a', 4), regexp_count('ABC', 'b', 1, 'i'), regexp_count('abc', '', 1), regexp_count('abc', 'a', 9);
SELECT regexp_replace('a.b.c', '.', '-', 'q'), regexp_replace('aAbB', 'a|b', '', 'gi'), regexp_replace('Thomas', '.[mN]a.', 'M'), regexp_replace('foobarbaz', 'b(..)', 'X\1Y', 'g'), regexp_replace('a b', '\s', '\\x\y', 'g');
SELECT 'abc' SIMILAR TO 'abc', 'abc' SIMILAR TO 'a', 'abc' SIMILAR TO '%(b|d)%', 'abc' SIMILAR TO '(b|c)%', 'a.c' SIMILAR TO 'a.c', 'abc' SIMILAR TO 'a.c', 'abc' NOT SIMILAR TO 'a_c', 'a%' SIMILAR TO 'a#%' ESCAPE '#', 'aaa' SIMILAR TO 'a{3}', NULL SIMILAR TO 'a', 'a\c' SIMILAR TO 'a\\c', 'ab' SIMILAR TO '[a-c]+', 'a"b' SIMILAR TO 'a["]b';
SELECT substring('foobar' SIMILAR '#"o_b#"%' ESCAPE '#'), substring('foobar' SIMILAR '%#"o_b#"%' ESCAPE '#'), substring('foobar' FROM '%#"o_b#"%' FOR '#'), substring('abcdefg' SIMILAR 'a#"%#"g' ESCAPE '#'), similar_to_escape('a_b%.c'), similar_to_escape('a$b%', '$');
SELECT 'a' SIMILAR TO 'a' ESCAPE 'xx';
SELECT similar_to_escape('#"a#"b#"c', '#');
SELECT regexp_match('abc', 'a', 'g');
SELECT regexp_split_to_array('abc', 'a', 'g');
SELECT regexp_count('abc', 'a', 0);
SELECT regexp_count('abc', 'a', 1, 'g');
SELECT regexp_replace('abc', 'a', 'b', 'z');
SELECT 'a' ~ '(';
SELECT 'a' ~ ')';
SELECT 'a' ~ '[a';
SELECT 'a' ~ '[b-a]';
SELECT 'a' ~ '[a-b-c]';
SELECT 'a' ~ '[[:nothing:]]';
SELECT 'a' ~ '[[.nothing.]]';
SELECT 'a' ~ '*a';
SELECT 'a' ~ 'a**';
SELECT 'a' ~ '^*';
SELECT 'a' ~ '(?=a)*';
SELECT 'a' ~ 'a{2,1}';
SELECT 'a' ~ 'a{256}';
SELECT 'a' ~ 'a{1';
SELECT 'a' ~ 'a\';
SELECT 'a' ~ 'a\q';
SELECT 'a' ~ '\1';
SELECT 'a' ~ '(a\1)';
SELECT 'a' ~ '(a)(?=\1)';
SELECT 'a' ~ '(?z)a';
SELECT 'a' ~ '(?<a)';
SELECT 'a' ~ '***?';
SELECT 'a' ~ '***x';
CREATE TABLE re_words (w text CHECK (w ~ '^(\w)\w*\1$'));
INSERT INTO re_words VALUES ('abca'), ('x1x'), ('ooo');
INSERT INTO re_words VALUES ('ab');
SELECT w FROM re_words WHERE w ~ '(.)\1' ORDER BY w;
SELECT w FROM re_words WHERE w SIMILAR TO '%b%' ORDER BY w;
DROP TABLE re_words;
