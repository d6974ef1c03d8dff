import { expect, test } from '@jest/globals';
import { proxiesIn } from './proxies.ts';

const table = [
  { name: 'an environment without proxies', given: { PATH: '/bin', no_proxy: 'localhost' }, want: [] },
  { name: 'an empty variable', given: { https_proxy: ' ' }, want: [] },
  {
    name: 'variable names in lower and upper case',
    given: { http_proxy: 'http://a:3128/', HTTPS_PROXY: 'http://b:8080' },
    want: ['HTTPS_PROXY=http://b:8080', 'http_proxy=http://a:3128'],
  },
  {
    name: 'a variable with a URL with a password, which is left out',
    given: { all_proxy: 'socks5://ann:secret@proxy.example:1080' },
    want: ['all_proxy=socks5://proxy.example:1080'],
  },
  {
    name: 'a variable with a URL without a scheme',
    given: { https_proxy: 'ann:secret@proxy:3128' },
    want: ['https_proxy=http://proxy:3128'],
  },
  {
    name: 'a variable that is no URL, whose text is left out because it may contain a password',
    given: { grpc_proxy: 'http://%zz:secret@[' },
    want: ['grpc_proxy=(no URL)'],
  },
];
test.each(table)('proxiesIn() returns the proxies, given $name', ({ given, want }) => {
  expect(proxiesIn(given)).toEqual(want);
});
