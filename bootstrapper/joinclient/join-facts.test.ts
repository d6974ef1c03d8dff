import { expect, test } from '@jest/globals';
import { joinClientErrors } from './errors.ts';
import { JoinFacts } from './join-facts.ts';

const cluster = {
  clusterId: 'c',
  clusterName: 'test',
  acceptedCaPem: '',
  ownedCaPem: '',
  clusterCaPem: '',
  epoch: 1,
  serverId: 'node-1',
};

test.each([
  { offsetMs: 300_000, want: { outcome: 'pass', actual: '300 s', fix: '', code: undefined } },
  { offsetMs: -299_000, want: { outcome: 'pass', actual: '-299 s', fix: '', code: undefined } },
  {
    offsetMs: -3_600_000,
    want: {
      outcome: 'fail',
      actual: '-3600 s',
      fix: joinClientErrors['joinclient-clock-off'].fix,
      code: 'joinclient-clock-off',
    },
  },
])('a clock that is $offsetMs ms off is reported with its offset and a fix', ({ offsetMs, want }) => {
  const facts = new JoinFacts(() => 1);
  facts.recordReached('192.0.2.1:9090', { ...cluster, clockOffsetMs: offsetMs });
  const clock = facts.list().find(({ name }) => name === 'clock');
  expect({ outcome: clock?.outcome, actual: clock?.actual, fix: clock?.fix, code: clock?.code }).toEqual(
    want,
  );
});

const proxies = [
  { name: 'pass without a proxy', given: [], want: { outcome: 'pass', expected: 'none' } },
  {
    name: 'warn about a proxy, because it is not used',
    given: ['https_proxy=http://p:3128'],
    want: { outcome: 'warn', expected: 'none', actual: 'https_proxy=http://p:3128 (not used)' },
  },
];
test.each(proxies)('the join facts of a machine $name', ({ given, want }) => {
  const facts = new JoinFacts(() => 1);
  facts.recordProxies(given);
  const [fact] = facts.list();
  expect(fact).toMatchObject({ name: 'proxy', ...want });
  expect(fact?.fix === '').toBe(want.outcome === 'pass');
});
