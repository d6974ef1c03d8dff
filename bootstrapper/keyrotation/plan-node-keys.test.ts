import { expect, test } from '@jest/globals';
import { planNodeKeys, type NodeKeysInputs } from './plan-node-keys.ts';

const controlPlane: NodeKeysInputs = {
  cluster: { generation: 2, phase: 'trust' },
  finished: { generation: 2, phase: 'distribute' },
  isControlPlane: true,
  hasKeys: true,
};
const worker: NodeKeysInputs = { ...controlPlane, isControlPlane: false, hasKeys: false };

const cases: readonly { name: string; given: NodeKeysInputs; want: unknown }[] = [
  {
    name: 'does nothing before the first rotation',
    given: { ...worker, cluster: undefined },
    want: { kind: 'rest' },
  },
  {
    name: 'does nothing before the new keys of the rotation exist',
    given: { ...controlPlane, cluster: { generation: 3, phase: 'asked' } },
    want: { kind: 'rest' },
  },
  {
    name: 'does nothing at the stage that this node has completed',
    given: { ...worker, finished: { generation: 2, phase: 'trust' } },
    want: { kind: 'rest' },
  },
  {
    name: 'fetches no keys that are older than those it has used',
    given: { ...controlPlane, finished: { generation: 3, phase: 'done' }, hasKeys: false },
    want: { kind: 'wait', why: 'newer keys: generation 2 was announced, this node has used 3' },
  },
  {
    name: 'does nothing while a slow curator reports an older stage',
    given: { ...worker, finished: { generation: 2, phase: 'issue' } },
    want: { kind: 'rest' },
  },
  {
    name: 'a control plane without the recorded keys fetches them in any phase',
    given: { ...controlPlane, hasKeys: false },
    want: { kind: 'fetch' },
  },
  {
    name: 'a control plane that lost the keys fetches them again, also after the rotation',
    given: { ...controlPlane, finished: { generation: 2, phase: 'trust' }, hasKeys: false },
    want: { kind: 'fetch' },
  },
  {
    name: 'a control plane activates a phase',
    given: controlPlane,
    want: { kind: 'enforce', phase: 'trust' },
  },
  { name: 'a worker activates a phase', given: worker, want: { kind: 'follow', phase: 'trust' } },
  {
    name: 'a worker that missed phases activates the current one at once',
    given: {
      ...worker,
      finished: { generation: 1, phase: 'done' },
      cluster: { generation: 2, phase: 'done' },
    },
    want: { kind: 'follow', phase: 'done' },
  },
  {
    name: 'no node acts before its roles are known',
    given: { ...worker, isControlPlane: undefined },
    want: { kind: 'wait', why: 'the roles of this node' },
  },
];

test.each(cases)('planNodeKeys(): $name', ({ given, want }) => {
  expect(planNodeKeys(given)).toEqual(want);
});
