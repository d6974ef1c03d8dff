import { expect, test } from '@jest/globals';
import { proxiesIn } from './proxies.ts';

const table = [
  { name: 'nothing', given: { PATH: '/bin', no_proxy: 'localhost' }, want: [] },
  { name: 'an empty one', given: { https_proxy: ' ' }, want: [] },
  {
    name: 'small and capital letters',
    given: { http_proxy: 'http://a:3128/', HTTPS_PROXY: 'http://b:8080' },
    want: ['HTTPS_PROXY=http://b:8080', 'http_proxy=http://a:3128'],
  },
  {
    name: 'a password, which stays where it is',
    given: { all_proxy: 'socks5://ann:secret@proxy.example:1080' },
    want: ['all_proxy=socks5://proxy.example:1080'],
  },
  {
    name: 'one without a scheme',
    given: { https_proxy: 'ann:secret@proxy:3128' },
    want: ['https_proxy=http://proxy:3128'],
  },
  {
    name: 'what is no URL, and may be a password',
    given: { grpc_proxy: 'http://%zz:secret@[' },
    want: ['grpc_proxy=(no URL)'],
  },
];
test.each(table)('a machine tells of proxies in its environment: $name', ({ given, want }) => {
  expect(proxiesIn(given)).toEqual(want);
});
