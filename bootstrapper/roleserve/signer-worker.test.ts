import { expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, settle, superviseForTest } from '../../internal/testing/index.ts';
import { planSigner, signerWorker } from './signer-worker.ts';
import type { LocalControlPlane, RoleSet } from './role-values.ts';

const controlPlane = { curatorEndpoint: 'x:1' } as LocalControlPlane;
const member: RoleSet = new Set(['ConsensusMember']);
const worker: RoleSet = new Set(['KubernetesWorker']);

test('planSigner() follows the role, and waits for the control plane of this node', () => {
  expect(planSigner({ localControlPlane: undefined, localRoles: undefined }, false)).toMatchObject({
    kind: 'wait',
  });
  expect(planSigner({ localControlPlane: undefined, localRoles: worker }, false)).toMatchObject({
    kind: 'stop',
  });
  expect(planSigner({ localControlPlane: undefined, localRoles: member }, false)).toMatchObject({
    kind: 'wait',
  });
  expect(planSigner({ localControlPlane: controlPlane, localRoles: member }, false)).toMatchObject({
    kind: 'start',
  });
  expect(planSigner({ localControlPlane: controlPlane, localRoles: member }, true)).toEqual({ kind: 'keep' });
  expect(planSigner({ localControlPlane: controlPlane, localRoles: worker }, true)).toMatchObject({
    kind: 'stop',
  });
});

test('an agent that restarts leaves the signer running until it knows that the role is removed', async () => {
  const localControlPlane = new EventValue<LocalControlPlane | undefined>();
  const localRoles = new EventValue<RoleSet | undefined>();
  localControlPlane.set(undefined);
  localRoles.set(undefined);
  const clock = new FakeClock();
  const calls: string[] = [];
  const driver = {
    start: () => Promise.resolve((calls.push('start'), [])),
    stop: () => Promise.resolve(void calls.push('stop')),
  };
  const worker = signerWorker({ reads: { localControlPlane, localRoles }, driver, clock });
  await using _tree = superviseForTest(worker, { clock });
  await settle();
  localRoles.set(member);
  await settle();
  localControlPlane.set(controlPlane);
  await settle();
  expect(calls).not.toContain('stop');
  expect(calls).toContain('start');
});

test('the worker passes keys to the signer until no key is missing, and stops the signer with the control plane', async () => {
  const localControlPlane = new EventValue<LocalControlPlane | undefined>();
  const localRoles = new EventValue<RoleSet | undefined>();
  localControlPlane.set(undefined);
  localRoles.set(worker);
  const clock = new FakeClock();
  const calls: string[] = [];
  let missing = ['kubernetes-ca.key'];
  const driver = {
    start: async () => {
      calls.push('start');
      return missing;
    },
    stop: async () => void calls.push('stop'),
  };
  await using tree = superviseForTest(
    signerWorker({ reads: { localControlPlane, localRoles }, driver, clock }),
    {
      clock,
    },
  );
  await settle();
  expect(calls).toEqual(['stop']);
  localRoles.set(member);
  localControlPlane.set(controlPlane);
  await settle();
  const before = calls.length;
  await clock.advance(1_000);
  expect(calls.length).toBe(before + 1);
  missing = [];
  await clock.advance(1_000);
  const complete = calls.length;
  await clock.advance(10_000);
  expect(calls.length).toBe(complete);
  expect(tree.records.filter(({ level }) => level === 'error')).toEqual([]);
  localRoles.set(worker);
  await settle();
  await clock.advance(60_000);
  expect(calls.at(-1)).toBe('stop');
});
