import { beforeEach, describe, expect, test } from '@jest/globals';
import { remove, type Write } from '../../internal/etcd/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { documentKey, records } from '../../internal/records/index.ts';
import { configurationWrite } from '../../internal/testing/index.ts';
import { CONFIGURATION, CONTROL_PLANE, FakeSigner, SignerMachine } from './fake-signer.ts';
import { MemberSigner } from './member-signer.ts';

const never = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const ADDRESS = '192.0.2.2';

let signer: FakeSigner;
beforeEach(async () => {
  signer = await FakeSigner.create();
});

/** Starts the signer again as the agent does that has found an old copy of the disk. */
async function restoreDisk(): Promise<void> {
  await signer.clock.advance(1_000);
  signer.restart(1, signer.clock.nowMs());
}

const configuration = configurationWrite(CONFIGURATION);
const policy = (serial: number): Write => signer.owner.policyWrite(configuration, { serial });

function granted(machine = new SignerMachine(), serial = 1): SignerMachine {
  const record = machine.record('c2', CONTROL_PLANE);
  signer.put(record);
  signer.write(signer.owner.grantWrite(record, {}, { serial }));
  return machine;
}

const operatorWith = (key: ReturnType<typeof generateKeyPem>) => ({
  ...{ name: 'ann', fingerprint: fingerprintOfKey(pubKeyDerOf(key)), role: 'operator' as const },
});

/** A certificate of the cluster CA, valid from `fromMs` on for some days. */
function certificateOf({ pubKeyDer }: SignerMachine, fromMs: number): Promise<string> {
  const { keyPem, caPem } = signer.cluster.authority;
  const ca = new KeyCertificateSigner({ keyPem, caPem, nowMs: () => fromMs });
  const { clusterId } = signer.cluster;
  return ca.issue(nodeLeaf({ clusterId, pubKeyDer, addresses: [], isControlPlane: true, validDays: 1 }));
}

describe('on an old disk the signer', () => {
  test('refuses a new control plane until an owner has signed its grant and the configuration again', async () => {
    const machine = granted();
    await restoreDisk();
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-before-rollback'));
    granted(machine, 2);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-before-rollback')); // the configuration is an old one too
    signer.write(policy(2));
    expect(await signer.sign(request)).toHaveProperty('controlPlaneKeys');
  });

  test('refuses a control plane that it knows, if the node shows no valid certificate', async () => {
    const machine = granted();
    await signer.sign(await signer.request(machine));
    await restoreDisk();
    for (const nodeCertificatePem of ['', await certificateOf(machine, signer.clock.nowMs() - 90_000_000)]) {
      const request = { ...(await signer.request(machine)), nodeCertificatePem };
      await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-before-rollback'));
    }
  });

  test('renews a control plane with a valid certificate, and the node that it runs on', async () => {
    const machine = granted();
    const own = signer.own.record('c1', CONTROL_PLANE);
    signer.put(own);
    signer.write(signer.owner.grantWrite(own));
    await restoreDisk();
    const nodeCertificatePem = await certificateOf(machine, signer.clock.nowMs());
    const request = { ...(await signer.request(machine)), nodeCertificatePem };
    expect(await signer.sign(request)).toHaveProperty('controlPlaneKeys');
    const ownRequest = await signer.request(signer.own, { address: '192.0.2.1' });
    expect(await signer.sign(ownRequest)).toHaveProperty('controlPlaneKeys');
  });

  test('renews and admits workers', async () => {
    const worker = new SignerMachine();
    signer.put(worker.record('w1', ['KubernetesWorker']));
    await restoreDisk();
    expect(await signer.sign(await signer.request(worker))).toHaveProperty('kubeletClientCertificatePem');
  });

  test('keeps the address of a control plane reserved for a withdrawal signed before', async () => {
    const removed = granted();
    await signer.sign(await signer.request(removed, { address: ADDRESS }));
    signer.write(remove(records.node.key(removed.nodeId)));
    const withdraw = (serial: number): void =>
      signer.write(
        signer.owner.grantWrite(
          removed.record('c2', CONTROL_PLANE),
          { roles: ['KubernetesWorker'] },
          { serial },
        ),
      );
    withdraw(2);
    await restoreDisk();
    const worker = new SignerMachine();
    signer.put(worker.record('w1', ['KubernetesWorker']));
    const request = await signer.request(worker, { address: ADDRESS });
    await expect(signer.sign(request)).rejects.toMatchObject({ code: 'signer-address-other' });
    withdraw(3);
    expect(await signer.sign(request)).toHaveProperty('kubeletServingCertificatePem');
  });

  test('gives an operator no certificate until an owner has signed the operators again, and owners theirs', async () => {
    const key = generateKeyPem();
    const operators = [operatorWith(key)];
    signer.write(signer.owner.documentWrite('operators', { operators }));
    await restoreDisk();
    const ask = async (by: typeof key): Promise<string> =>
      new MemberSigner(signer.reads).signOperator(await createCertificateRequest(by, 'x'), never);
    await expect(ask(key)).rejects.toEqual(coded('owner-document-before-rollback'));
    expect(await ask(signer.owner.keyPem)).toContain('BEGIN CERTIFICATE');
    signer.write(signer.owner.documentWrite('operators', { operators }, { serial: 2 }));
    expect(await ask(key)).toContain('BEGIN CERTIFICATE');
  });
});

test('the signer remembers the grant of a control plane that the inventory lists later', async () => {
  const machine = granted(new SignerMachine(), 2);
  await signer.sign(await signer.request(machine));
  const { identity } = machine.machine;
  const inventory = [{ identity, name: 'c2', roles: ['control-plane'] }];
  const listed = configurationWrite({ ...CONFIGURATION, join: { policy: 'inventory', inventory } });
  signer.write(listed, signer.owner.policyWrite(listed, { serial: 2 }));
  signer.write(remove(documentKey('grant', machine.nodeId)));
  await signer.clock.advance(1_000);
  await signer.sign(await signer.request(machine));
  const known = (await signer.reads.memory.controlPlanes()).get(machine.nodeId);
  expect(known?.grant?.serial).toBe(2);
});
