import { expect, test } from '@jest/globals';
import { planRotation, type RotationMember, type RotationRecord } from './plan-rotation.ts';
import { LATER_KEYS, type KeyPhase } from './phases.ts';

const member = (
  name: string,
  at: string | undefined,
  as: Partial<RotationMember> = { isControlPlane: true },
): RotationMember => {
  const [generation, phase] = (at ?? '').split('/');
  const stage = at === undefined ? undefined : { generation: Number(generation), phase: phase as KeyPhase };
  return {
    nodeId: `node-${name}`,
    name,
    isControlPlane: false,
    isAlive: true,
    stage,
    knowsEncryption: true,
    laterKeys: LATER_KEYS,
    ...as,
  };
};
const worker = (name: string, at: string | undefined, isAlive = true) => member(name, at, { isAlive });
const off = (name: string, at: string) => member(name, at, { isControlPlane: true, isAlive: false });
const now = (phase: RotationRecord['phase']): RotationRecord => ({
  ...{ generation: 2, phase },
  madeBy: phase === 'asked' ? undefined : 'node-a',
});
const made = (by: string): RotationRecord => ({ generation: 2, phase: 'asked', madeBy: by });

const cases: readonly {
  name: string;
  at: RotationRecord;
  members: readonly RotationMember[];
  want: unknown;
}[] = [
  {
    name: 'does not create new keys while an agent is too old to take part',
    at: now('asked'),
    members: [member('a', '1/done'), worker('w', undefined)],
    want: [['w', 'its agent is too old to rotate keys']],
  },
  {
    name: 'does not create new keys while an agent does not know the encryption key',
    at: now('asked'),
    members: [member('a', '1/done'), member('w', '1/done', { knowsEncryption: false })],
    want: [['w', 'its agent is too old to replace the encryption key']],
  },
  {
    name: 'does not create new keys while an agent does not know the Kubernetes CA',
    at: now('asked'),
    members: [member('a', '1/done'), member('w', '1/done', { laterKeys: ['other'] })],
    want: [['w', 'its agent is too old to replace the Kubernetes CA']],
  },
  {
    name: 'does not create new keys while an agent is too old to replace the cluster CA',
    at: now('asked'),
    members: [member('a', '1/done'), member('w', '1/done', { laterKeys: ['kubernetes-ca'] })],
    want: [['w', 'its agent is too old to replace the cluster CA']],
  },
  {
    name: 'continues a rotation that agents of an earlier version started',
    at: now('trust'),
    members: [member('a', '2/trust', { isControlPlane: true, knowsEncryption: false })],
    want: { kind: 'next', phase: 'issue' },
  },
  {
    name: 'lets one control plane create new keys when all agents can take part',
    at: now('asked'),
    members: [member('a', '1/done'), worker('w', '1/done'), worker('x', undefined, false)],
    want: { kind: 'make', again: false },
  },
  {
    name: 'creates a newer generation when restored records are older than the keys on nodes',
    at: now('asked'),
    members: [member('a', '2/done'), member('b', '2/done')],
    want: { kind: 'make', again: true },
  },
  {
    name: 'lets nobody distribute new keys before an owner has signed them',
    at: made('node-a'),
    members: [member('a', '1/done'), member('b', '1/done')],
    want: { kind: 'sign' },
  },
  {
    name: 'creates new keys again when the control plane that created the keys is gone before an owner signed them',
    at: made('node-gone'),
    members: [member('a', '1/done')],
    want: { kind: 'make', again: true },
  },
  {
    name: 'creates new keys again when the node that created the keys is no control plane any more',
    at: made('node-w'),
    members: [member('a', '1/done'), worker('w', '1/done')],
    want: { kind: 'make', again: true },
  },
  {
    name: 'waits until every control plane has the new keys',
    at: now('distribute'),
    members: [member('a', '2/distribute'), member('b', '1/done'), worker('w', '1/done')],
    want: [['b', 'has not started']],
  },
  {
    name: 'does not wait for workers to receive the new keys',
    at: now('distribute'),
    members: [member('a', '2/distribute'), member('b', '2/distribute'), worker('w', '1/done')],
    want: { kind: 'next', phase: 'trust' },
  },
  {
    name: 'creates new keys again when all control planes that had the new keys are gone',
    at: now('distribute'),
    members: [member('b', '1/done'), member('c', '1/done')],
    want: { kind: 'make', again: true },
  },
  {
    name: 'does not replace the new keys while another control plane still has them',
    at: now('distribute'),
    members: [member('b', '2/distribute'), member('c', '1/done')],
    want: [['c', 'has not started']],
  },
  {
    name: 'continues later phases after the creator of the keys was removed',
    at: now('trust'),
    members: [member('b', '2/trust'), member('c', '2/trust')],
    want: { kind: 'next', phase: 'issue' },
  },
  {
    name: 'waits for a control plane that is down',
    at: now('issue'),
    members: [member('a', '2/issue'), off('b', '2/trust')],
    want: [['b', 'not reachable; remove the node if it will not return']],
  },
  {
    name: 'does not wait for a worker that is down',
    at: now('issue'),
    members: [member('a', '2/issue'), worker('w', '2/trust', false)],
    want: { kind: 'next', phase: 'refresh' },
  },
  {
    name: 'waits for a worker that is alive',
    at: now('refresh'),
    members: [member('a', '2/refresh'), worker('w', '2/issue')],
    want: [['w', 'still in phase "issue"']],
  },
  {
    name: 'goes from the last phase to done',
    at: now('retire'),
    members: [member('a', '2/retire'), member('b', '2/done')],
    want: { kind: 'next', phase: 'done' },
  },
  {
    name: 'keeps a completed rotation done',
    at: now('done'),
    members: [off('a', '1/done')],
    want: { kind: 'done' },
  },
];

test.each(cases)('planRotation() $name', ({ at, members, want }) => {
  const found = planRotation(at, members);
  expect(found.kind === 'wait' ? found.awaited.map(({ name, why }) => [name, why]) : found).toEqual(want);
});
