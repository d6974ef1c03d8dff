import { expect, test } from '@jest/globals';
import { planRotation, type RotationMember, type RotationRecord } from './plan-rotation.ts';
import type { KeyPhase } from './phases.ts';

const member = (
  name: string,
  at: string | undefined,
  as: Partial<RotationMember> = { isControlPlane: true },
): RotationMember => {
  const [generation, phase] = (at ?? '').split('/');
  const stage = at === undefined ? undefined : { generation: Number(generation), phase: phase as KeyPhase };
  return { nodeId: `node-${name}`, name, isControlPlane: false, isAlive: true, stage, ...as };
};
const worker = (name: string, at: string | undefined, isAlive = true) => member(name, at, { isAlive });
const off = (name: string, at: string) => member(name, at, { isControlPlane: true, isAlive: false });
const now = (phase: RotationRecord['phase']): RotationRecord => ({ generation: 2, phase, madeBy: 'node-a' });

const cases: readonly {
  name: string;
  at: RotationRecord;
  members: readonly RotationMember[];
  want: unknown;
}[] = [
  {
    name: 'nobody makes keys while an agent cannot take part',
    at: now('asked'),
    members: [member('a', '1/done'), worker('w', undefined)],
    want: [['w', 'its agent is too old to rotate keys']],
  },
  {
    name: 'one makes them when all can',
    at: now('asked'),
    members: [member('a', '1/done'), worker('w', '1/done'), worker('x', undefined, false)],
    want: { kind: 'make', again: false },
  },
  {
    name: 'restored records that forgot a generation go past it: no old keys are taken for new ones',
    at: now('asked'),
    members: [member('a', '2/done'), member('b', '2/done')],
    want: { kind: 'make', again: true },
  },
  {
    name: 'every control plane is to have them',
    at: now('hand'),
    members: [member('a', '2/hand'), member('b', '1/done'), worker('w', '1/done')],
    want: [['b', 'has not started']],
  },
  {
    name: 'workers have none',
    at: now('hand'),
    members: [member('a', '2/hand'), member('b', '2/hand'), worker('w', '1/done')],
    want: { kind: 'next', phase: 'believe' },
  },
  {
    name: 'other keys are made when who had them is gone',
    at: now('hand'),
    members: [member('b', '1/done'), member('c', '1/done')],
    want: { kind: 'make', again: true },
  },
  {
    name: 'not while another one has them',
    at: now('hand'),
    members: [member('b', '2/hand'), member('c', '1/done')],
    want: [['c', 'has not started']],
  },
  {
    name: 'later phases need their maker no more',
    at: now('believe'),
    members: [member('b', '2/believe'), member('c', '2/believe')],
    want: { kind: 'next', phase: 'issue' },
  },
  {
    name: 'a control plane that is off is waited for',
    at: now('issue'),
    members: [member('a', '2/issue'), off('b', '2/believe')],
    want: [['b', 'not reachable; remove the node if it will not return']],
  },
  {
    name: 'a worker that is off is not',
    at: now('issue'),
    members: [member('a', '2/issue'), worker('w', '2/believe', false)],
    want: { kind: 'next', phase: 'refresh' },
  },
  {
    name: 'a worker that is alive is waited for',
    at: now('refresh'),
    members: [member('a', '2/refresh'), worker('w', '2/issue')],
    want: [['w', 'still in phase "issue"']],
  },
  {
    name: 'the last phase ends it',
    at: now('retire'),
    members: [member('a', '2/retire'), member('b', '2/done')],
    want: { kind: 'next', phase: 'done' },
  },
  { name: 'what is done stays so', at: now('done'), members: [off('a', '1/done')], want: { kind: 'done' } },
];

test.each(cases)('$name', ({ at, members, want }) => {
  const found = planRotation(at, members);
  expect(found.kind === 'wait' ? found.awaited.map(({ name, why }) => [name, why]) : found).toEqual(want);
});
