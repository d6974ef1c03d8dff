import { expect, test } from '@jest/globals';
import { removedKeysOf } from './removals.ts';

const WORKER = { roles: ['KubernetesWorker' as const], wasControlPlane: false };
const FORMER = { roles: [], wasControlPlane: true };
const OLD = { roles: [] };
const reports = (holdsKeys: boolean) => ({ holdsKeys, keyGeneration: 2 });

test.each([
  { what: 'a worker', node: WORKER, status: reports(false), want: { sharedKeys: 'none' } },
  {
    what: 'a worker that reports shared keys',
    node: WORKER,
    status: reports(true),
    want: { sharedKeys: 'left', keyGeneration: 2 },
  },
  {
    what: 'a former control plane that reports that it deleted them',
    node: FORMER,
    status: reports(false),
    want: { sharedKeys: 'deleted', keyGeneration: 2 },
  },
  {
    what: 'a former control plane whose last report has them',
    node: FORMER,
    status: reports(true),
    want: { sharedKeys: 'left', keyGeneration: 2 },
  },
  {
    what: 'a former control plane without a report',
    node: FORMER,
    status: undefined,
    want: { sharedKeys: 'left' },
  },
  {
    what: 'a control plane on a record of an older release',
    node: { roles: ['ConsensusMember' as const] },
    status: undefined,
    want: { sharedKeys: 'left' },
  },
  { what: 'a record of an older release', node: OLD, status: reports(false), want: {} },
])('removedKeysOf() of $what', ({ node, status, want }) => {
  expect(removedKeysOf(node, status)).toEqual(want);
});
