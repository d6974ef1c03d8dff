import { expect, test } from '@jest/globals';
import { planKeys, type KeysInputs } from './plan.ts';

const controlPlane: KeysInputs = {
  told: { generation: 2, phase: 'believe' },
  reached: { generation: 2, phase: 'hand' },
  isControlPlane: true,
  hasKeys: true,
};
const worker: KeysInputs = { ...controlPlane, isControlPlane: false, hasKeys: false };

const cases: readonly { name: string; given: KeysInputs; want: unknown }[] = [
  {
    name: 'nothing before the first rotation',
    given: { ...worker, told: undefined },
    want: { kind: 'rest' },
  },
  {
    name: 'nothing while keys are asked for',
    given: { ...controlPlane, told: { generation: 3, phase: 'asked' } },
    want: { kind: 'rest' },
  },
  {
    name: 'nothing at the same stage',
    given: { ...worker, reached: { generation: 2, phase: 'believe' } },
    want: { kind: 'rest' },
  },
  {
    name: 'nothing while a slow curator tells an older stage',
    given: { ...worker, reached: { generation: 2, phase: 'issue' } },
    want: { kind: 'rest' },
  },
  {
    name: 'a control plane without the keys on record gets them, whatever the phase',
    given: { ...controlPlane, hasKeys: false },
    want: { kind: 'fetch' },
  },
  {
    name: 'a control plane that lost them gets them again, also when all is done',
    given: { ...controlPlane, reached: { generation: 2, phase: 'believe' }, hasKeys: false },
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
    given: { ...worker, reached: { generation: 1, phase: 'done' }, told: { generation: 2, phase: 'done' } },
    want: { kind: 'follow', phase: 'done' },
  },
  {
    name: 'nobody acts before the roles are known',
    given: { ...worker, isControlPlane: undefined },
    want: { kind: 'wait', why: 'the roles of this node' },
  },
];

test.each(cases)('$name', ({ given, want }) => {
  expect(planKeys(given)).toEqual(want);
});
