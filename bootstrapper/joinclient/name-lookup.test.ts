import { expect, test } from '@jest/globals';
import { FakeClock } from '../../internal/testing/index.ts';
import { JoinFacts } from './join-facts.ts';
import { recordNameLookup } from './name-lookup.ts';

const never = new AbortController().signal;
const missing = Object.assign(new Error('getaddrinfo ENOTFOUND cp.example'), { code: 'ENOTFOUND' });

const table = [
  {
    name: 'a name with addresses',
    endpoint: 'cp.example:9090',
    answer: () => Promise.resolve(['192.0.2.1', '2001:db8::1']),
    want: { name: 'dns cp.example', outcome: 'pass', actual: '192.0.2.1, 2001:db8::1' },
  },
  {
    name: 'an unknown name',
    endpoint: 'cp.example:9090',
    answer: () => Promise.reject(missing),
    want: { name: 'dns cp.example', outcome: 'fail', code: 'joinclient-name-unknown' },
  },
  {
    name: 'an address',
    endpoint: '192.0.2.1:9090',
    answer: () => Promise.reject(new Error('was asked')),
    want: { name: 'dns', outcome: 'pass' },
  },
  {
    name: 'an IPv6 address',
    endpoint: '[2001:db8::1]:9090',
    answer: () => Promise.reject(new Error('was asked')),
    want: { name: 'dns', outcome: 'pass' },
  },
];
test.each(table)('recordNameLookup() records the result for $name', async ({ endpoint, answer, want }) => {
  const clock = new FakeClock();
  const facts = new JoinFacts(() => clock.nowMs());
  await recordNameLookup(endpoint, { facts, lookUp: answer, clock, signal: never });
  expect(facts.list()).toEqual([expect.objectContaining(want)]);
});

test('a resolver that does not answer is reported, unless another endpoint answered first', async () => {
  const clock = new FakeClock();
  const facts = new JoinFacts(() => clock.nowMs());
  const lookUp = () => new Promise<never>(() => undefined);
  const noted = recordNameLookup('cp.example:9090', { facts, lookUp, clock, signal: never });
  await clock.advance(5_000);
  await noted;
  expect(facts.list()).toMatchObject([{ name: 'dns cp.example', outcome: 'fail' }]);
  const won = new AbortController();
  const other = recordNameLookup('cp.another:9090', { facts, lookUp, clock, signal: won.signal });
  won.abort(new Error('another endpoint answered'));
  await other;
  expect(facts.list().length).toBe(1);
});
