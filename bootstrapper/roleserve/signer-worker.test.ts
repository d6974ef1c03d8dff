import { expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, settle, superviseForTest } from '../../internal/testing/index.ts';
import { planSigner, signerWorker } from './signer-worker.ts';
import type { LocalControlPlane } from './values.ts';

const controlPlane = { curatorEndpoint: 'x:1' } as LocalControlPlane;

test('the plan follows the control plane', () => {
  expect(planSigner(undefined, false)).toMatchObject({ kind: 'stop' });
  expect(planSigner(controlPlane, false)).toMatchObject({ kind: 'start' });
  expect(planSigner(controlPlane, true)).toEqual({ kind: 'keep' });
});

test('keys are handed over until none is missing, and the unit goes with the control plane', async () => {
  const localControlPlane = new EventValue<LocalControlPlane | undefined>();
  localControlPlane.set(undefined);
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
  await using tree = superviseForTest(signerWorker({ reads: { localControlPlane }, driver, clock }), {
    clock,
  });
  await settle();
  expect(calls).toEqual(['stop']);
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
  localControlPlane.set(undefined);
  await settle();
  await clock.advance(60_000);
  expect(calls.at(-1)).toBe('stop');
});
