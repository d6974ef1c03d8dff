import { expect, test } from '@jest/globals';
import { planNodeKeys, type NodeKeysInputs } from './plan-node-keys.ts';

const controlPlane: NodeKeysInputs = {
  cluster: { generation: 2, phase: 'believe' },
  finished: { generation: 2, phase: 'hand' },
  isControlPlane: true,
  hasKeys: true,
};
const worker: NodeKeysInputs = { ...controlPlane, isControlPlane: false, hasKeys: false };

const cases: readonly { name: string; given: NodeKeysInputs; want: unknown }[] = [
  {
    name: 'nothing before the first rotation',
    given: { ...worker, cluster: undefined },
    want: { kind: 'rest' },
  },
  {
    name: 'nothing while keys are asked for',
    given: { ...controlPlane, cluster: { generation: 3, phase: 'asked' } },
    want: { kind: 'rest' },
  },
  {
    name: 'nothing at the same stage',
    given: { ...worker, finished: { generation: 2, phase: 'believe' } },
    want: { kind: 'rest' },
  },
  {
    name: 'nothing while a slow curator tells an older stage',
    given: { ...worker, finished: { generation: 2, phase: 'issue' } },
    want: { kind: 'rest' },
  },
  {
    name: 'a control plane without the keys on record gets them, whatever the phase',
    given: { ...controlPlane, hasKeys: false },
    want: { kind: 'fetch' },
  },
  {
    name: 'a control plane that lost them gets them again, also when all is done',
    given: { ...controlPlane, finished: { generation: 2, phase: 'believe' }, hasKeys: false },
    want: { kind: 'fetch' },
  },
  {
    name: 'a control plane brings a phase into force',
    given: controlPlane,
    want: { kind: 'enforce', phase: 'believe' },
  },
  { name: 'a worker follows', given: worker, want: { kind: 'follow', phase: 'believe' } },
  {
    name: 'a worker that missed phases goes to the present one at once',
    given: {
      ...worker,
      finished: { generation: 1, phase: 'done' },
      cluster: { generation: 2, phase: 'done' },
    },
    want: { kind: 'follow', phase: 'done' },
  },
  {
    name: 'nobody acts before the roles are known',
    given: { ...worker, isControlPlane: undefined },
    want: { kind: 'wait', why: 'the roles of this node' },
  },
];

test.each(cases)('$name', ({ given, want }) => {
  expect(planNodeKeys(given)).toEqual(want);
});
