import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { put } from '../../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, documentKey, records } from '../../../internal/records/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd, settle } from '../../../internal/testing/index.ts';
import { ActiveConfigurationSource, type ActiveConfiguration } from './active-configuration.ts';
import { FakeOwner } from '../../ownerdocs/fake-owner.ts';
import { readAttestation } from '../../evidence/index.ts';

let stop = new AbortController();
beforeEach(() => void (stop = new AbortController()));
afterEach(() => stop.abort(new Error('the test is over')));

const document = (over: object) => ({
  version: 1,
  name: 'test',
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  ...over,
});

function write(etcd: MemoryEtcd, text: unknown): void {
  const record = { version: 1 as const, document: btoa(JSON.stringify(text)), updatedMs: 1, updatedBy: 'x' };
  etcd.commitNow({ when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(record))] });
}

test('ActiveConfigurationSource applies a new policy at once, and keeps the previous one while the new one is invalid', async () => {
  const etcd = new MemoryEtcd();
  const { log, records: lines } = createMemoryLogger();
  let refuses = false;
  const onChange = ({ config }: ActiveConfiguration): void => {
    readAttestation(config);
    if (refuses) throw new Error('a verifier cannot be made of it');
  };
  const ownerDocs = new FakeOwner({ clock: new FakeClock() }).ownerDocs(etcd);
  const source = new ActiveConfigurationSource({ etcd, log, ownerDocs, onChange });
  write(etcd, document({ join: { policy: 'approve' } }));
  const run = source.run(stop.signal).catch((error: unknown) => error);
  const active = (): unknown => {
    const now = source.current.peek();
    return now.set ? now.value.policy.policy : undefined;
  };
  const reported = (): number => lines.filter(({ level }) => level === 'error').length;
  await settle();
  expect(active()).toBe('approve');
  write(etcd, document({ join: { policy: 'inventory' } }));
  await settle();
  expect([active(), reported()]).toEqual(['inventory', 0]);
  // This document is written to etcd without a curator, as an attacker with access to etcd could do.
  write(etcd, document({ join: { policy: 'everybody' } }));
  await settle();
  expect([active(), reported()]).toEqual(['inventory', 1]);
  refuses = true;
  write(etcd, document({ join: { policy: 'auto' } }));
  await settle();
  expect([active(), reported()]).toEqual(['inventory', 2]);
  refuses = false;
  write(etcd, document({ join: { policy: 'approve' }, certificates: { nodeMinutes: 60 } }));
  await settle();
  expect([active(), reported()]).toEqual(['approve', 2]);
  stop.abort(new Error('the test is over'));
  await run;
});

describe('ActiveConfigurationSource in a cluster whose configuration an owner has signed', () => {
  async function createSigned(policy: string, signed = policy) {
    const etcd = new MemoryEtcd();
    const owner = new FakeOwner({ clock: new FakeClock() });
    const { log, records: lines } = createMemoryLogger();
    const sign = (text: string) =>
      owner.record(etcd, owner.policy(JSON.stringify(document({ join: { policy: text } }))));
    await sign(signed);
    write(etcd, document({ join: { policy } }));
    const source = new ActiveConfigurationSource({ etcd, log, ownerDocs: owner.ownerDocs(etcd) });
    source.run(stop.signal).catch(() => undefined);
    await settle();
    return {
      ...{ etcd, sign, source },
      active: (): unknown => {
        const now = source.current.peek();
        return now.set ? now.value.policy.policy : undefined;
      },
      reported: (): number => lines.filter(({ level }) => level === 'error').length,
    };
  }

  test('keeps the signed configuration if somebody writes an unsigned one to etcd, until an owner signs the new one', async () => {
    const harness = await createSigned('approve');
    const { etcd, source, sign, active, reported } = harness;
    expect([active(), reported()]).toEqual(['approve', 0]);
    write(etcd, document({ join: { policy: 'auto' } }));
    await settle();
    expect([active(), reported()]).toEqual(['approve', 1]);
    await sign('auto');
    source.recheck();
    await settle();
    expect([active(), reported()]).toEqual(['auto', 1]);
  });

  test('applies no unsigned configuration at its start', async () => {
    const { active, reported } = await createSigned('auto', 'approve');
    expect([active(), reported()]).toEqual([undefined, 1]);
  });

  test('keeps the signed configuration if somebody also deletes its signature from etcd', async () => {
    const { etcd, active } = await createSigned('approve');
    etcd.commitNow({ when: [], then: [{ kind: 'delete', key: documentKey('policy', '') }] });
    write(etcd, document({ join: { policy: 'auto' } }));
    await settle();
    expect(active()).toBe('approve');
  });
});
