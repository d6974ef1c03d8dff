import { beforeEach, describe, expect, test } from '@jest/globals';
import { put, remove } from '../../internal/etcd/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { documentKey, records } from '../../internal/records/index.ts';
import { configurationWrite, TestOwner } from '../../internal/testing/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { sealForTpm } from './seal-for-tpm.ts';
import { CONFIGURATION, CONTROL_PLANE, FakeSigner, recipientKey, SignerMachine } from './fake-signer.ts';
import { MemberSigner } from './member-signer.ts';

const never = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });

let signer: FakeSigner;
beforeEach(async () => {
  signer = await FakeSigner.create();
});

/** A control plane that an owner has signed for. */
function granted(name = 'c2'): SignerMachine {
  const machine = new SignerMachine();
  const record = machine.record(name, CONTROL_PLANE);
  signer.put(record);
  signer.write(signer.owner.grantWrite(record));
  return machine;
}

/** A machine of the attacker, recorded as the attacker likes. */
function forged(roles: Parameters<SignerMachine['record']>[1] = CONTROL_PLANE): SignerMachine {
  const machine = new SignerMachine();
  signer.put(machine.record('c9', roles));
  return machine;
}

test('a control plane with a grant gets every shared key, sealed to its own agent', async () => {
  const machine = granted();
  const signed = await signer.sign(await signer.request(machine));
  expect(signer.open(machine, signed)).toMatchObject({
    'service-account.key': 'text of service-account.key',
  });
});

describe('an attacker who writes etcd and calls the signer gets no shared key', () => {
  test('with the record of a machine of its own', async () => {
    const request = await signer.request(forged());
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-grant-missing'));
  });

  test('with a grant signed by its own key', async () => {
    const machine = forged();
    const by = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    signer.write(signer.owner.grantWrite(machine.record('c9', CONTROL_PLANE), {}, { by }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-signer-unknown'));
  });

  test('with an `owners` document signed by its own key', async () => {
    const machine = forged();
    const by = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    const keys = [Buffer.from(by.pubKey).toString('base64')];
    signer.write(signer.owner.documentWrite('owners', { keys }, { by }));
    signer.write(signer.owner.grantWrite(machine.record('c9', CONTROL_PLANE), {}, { by }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-signer-unknown'));
  });

  test('with the grant of another node under its own etcd key', async () => {
    const other = new SignerMachine();
    const machine = forged();
    signer.write(signer.owner.grantWrite(other.record('c2', CONTROL_PLANE), {}, { at: machine.nodeId }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-grant-other'));
  });

  test('with its own key in the record of a node with a grant', async () => {
    const machine = granted();
    const mine = new SignerMachine();
    const pubKey = Buffer.from(mine.pubKeyDer).toString('base64');
    signer.put({ ...machine.record('c2', CONTROL_PLANE), pubKey });
    const request = { ...(await signer.request(mine)), nodeId: machine.nodeId };
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-not-on-record'));
  });

  test('with the statement of a control plane and another sealing key', async () => {
    const machine = granted();
    const request = { ...(await signer.request(machine)), sealingPublicKey: recipientKey().pubKeyDer };
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });

  test.each([
    { name: 'address', swap: { address: '192.0.2.66' } },
    { name: 'roles', swap: { roles: ['KubernetesWorker'] } },
    { name: 'session', swap: { session: new Uint8Array(64).fill(9) } },
    { name: 'time', swap: { timeMs: 1 } },
  ])('with a statement whose $name is replaced', async ({ swap }) => {
    const request = { ...(await signer.request(granted())), ...swap };
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });

  test('with evidence of the same machine for another statement', async () => {
    const machine = granted();
    const [one, other] = [
      await signer.request(machine),
      await signer.request(machine, { address: '192.0.2.8' }),
    ];
    await expect(signer.sign({ ...one, evidence: other.evidence })).rejects.toEqual(
      coded('signer-evidence-refused'),
    );
  });

  test('without evidence, and with evidence of another variant', async () => {
    const request = await signer.request(granted());
    const [shown] = request.evidence;
    const other = [{ variant: 'tpm', document: shown?.document ?? new Uint8Array() }];
    for (const evidence of [[], other])
      await expect(signer.sign({ ...request, evidence })).rejects.toEqual(coded('signer-evidence-missing'));
  });

  test('with evidence of another machine than the recorded one', async () => {
    const machine = granted();
    const request = await signer.request(machine);
    const { evidence } = await new SignerMachine(machine.keyPem).ask({ ...request, clusterId: 'c0ffee' });
    const { machine: other } = new SignerMachine();
    const record = machine.record('c2', CONTROL_PLANE);
    signer.put({ ...record, admission: { ...other, decidedBy: 'operator:o', timeMs: 1 } });
    await expect(signer.sign({ ...request, evidence })).rejects.toEqual(coded('signer-machine-other'));
  });

  test('with a configuration that no owner has signed', async () => {
    const machine = granted();
    signer.write(configurationWrite({ ...CONFIGURATION, join: { policy: 'inventory', inventory: [] } }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-policy-unsigned'));
  });
});

describe('an inventory that lists a control plane', () => {
  const list = (identity: string) => ({
    ...CONFIGURATION,
    join: { policy: 'inventory', inventory: [{ identity, name: 'c9', roles: ['control-plane'] }] },
  });

  test('replaces a grant where an owner has signed it and the machine is identified by its key', async () => {
    const machine = forged();
    const write = configurationWrite(list(machine.machine.identity));
    signer.write(write, signer.owner.policyWrite(write, { serial: 2 }));
    const signed = await signer.sign(await signer.request(machine));
    expect(signer.open(machine, signed)).toHaveProperty(['cluster-ca.key']);
  });

  test('grants nothing where no owner has signed it', async () => {
    const machine = forged();
    signer.write(configurationWrite(list(machine.machine.identity)));
    await expect(signer.sign(await signer.request(machine))).rejects.toEqual(coded('signer-policy-unsigned'));
  });

  test('grants nothing to other machines', async () => {
    const write = configurationWrite(list(new SignerMachine().machine.identity));
    signer.write(write, signer.owner.policyWrite(write, { serial: 2 }));
    const request = await signer.request(forged());
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-grant-missing'));
  });

  test.each([
    { name: 'without the TPM’s enrolment', enrolment: new Uint8Array() },
    { name: 'with an enrolment that is none', enrolment: new Uint8Array(40) },
  ])('by TPM gives no key $name', ({ enrolment }) => {
    const record = { ...new SignerMachine().machine, identity: `tpm-ek:${'0'.repeat(64)}` };
    const shows = { akName: 'ab'.repeat(34), machine: record };
    const close = (): unknown =>
      sealForTpm(new Secret(new Uint8Array(8)), shows, { enrolment, session: new Uint8Array(64) });
    expect(close).toThrow(coded('signer-machine-other'));
  });
});

describe('a statement', () => {
  test('that is repeated gets an answer for the same recipient, so that an interrupted join continues', async () => {
    const machine = granted();
    const request = await signer.request(machine);
    await signer.sign(request);
    signer.restart();
    expect(signer.open(machine, await signer.sign(request))).toHaveProperty(['cluster-ca.key']);
  });

  test('is refused after a newer one of the machine, also after a restart of the signer', async () => {
    const machine = granted();
    const old = await signer.request(machine);
    await signer.clock.advance(1_000);
    await signer.sign(await signer.request(machine));
    await expect(signer.sign(old)).rejects.toEqual(coded('signer-statement-replayed'));
    signer.restart();
    await expect(signer.sign(old)).rejects.toEqual(coded('signer-statement-replayed'));
  });

  test('of a worker is refused after a newer one', async () => {
    const machine = forged(['KubernetesWorker']);
    const old = await signer.request(machine);
    await signer.clock.advance(1_000);
    await signer.sign(await signer.request(machine));
    await expect(signer.sign(old)).rejects.toEqual(coded('signer-statement-replayed'));
  });

  test('for another recipient is accepted if it is a newer one of the same machine', async () => {
    const machine = granted();
    await signer.sign(await signer.request(machine));
    await signer.clock.advance(1_000);
    const { keyPem, pubKeyDer } = recipientKey();
    const signed = await signer.sign(await signer.request(machine, { sealingPublicKey: pubKeyDer }));
    const again = Object.assign(new SignerMachine(machine.keyPem), { sealingKeyPem: keyPem });
    expect(signer.open(again, signed)).toHaveProperty(['cluster-ca.key']);
  });

  test.each([
    { name: 'that was kept back', ageMs: 10 * 60_000 + 1 },
    { name: 'from the future', ageMs: -(5 * 60_000 + 1) },
  ])('$name is refused', async ({ ageMs }) => {
    const machine = granted();
    const request = await signer.request(machine, { timeMs: signer.clock.nowMs() - ageMs });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-statement-outdated'));
  });

  test('for another cluster is refused', async () => {
    const machine = granted();
    const request = await signer.request(machine, { clusterId: 'decade' });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });

  test('gives no key for roles that it does not contain', async () => {
    const signed = await signer.sign(await signer.request(granted(), { roles: ['KubernetesWorker'] }));
    expect(signed.controlPlaneKeys).toBeUndefined();
  });
});

describe('the grant of an owner', () => {
  const roles = [...CONTROL_PLANE];
  test.each([
    {
      name: 'for another key',
      body: { fingerprint: `sha256:${'0'.repeat(64)}` },
      over: {},
      code: 'signer-grant-other',
    },
    {
      name: 'for another machine',
      body: { identity: `tpm-ek:${'0'.repeat(64)}` },
      over: {},
      code: 'signer-grant-other',
    },
    {
      name: 'that takes the place back',
      body: { roles: ['KubernetesWorker' as const] },
      over: {},
      code: 'signer-grant-other',
    },
    {
      name: 'of another cluster',
      body: {},
      over: { clusterId: 'decade' },
      code: 'owner-document-cluster-mismatch',
    },
    { name: 'that has ended', body: {}, over: { endsMs: 1_000 }, code: 'owner-document-expired' },
  ])('$name is refused', async ({ body, over, code }) => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, body, over));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded(code));
  });

  test('from before a recovery is refused', async () => {
    const request = await signer.request(granted());
    signer.restart(2);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-epoch-old'));
  });

  test('from before a recovery that only the cluster record shows is refused', async () => {
    const request = await signer.request(granted());
    await signer.cluster.setEpoch(2);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-epoch-old'));
  });

  test('from before a recovery stays valid for known control planes and the own node', async () => {
    const machine = granted();
    await signer.sign(await signer.request(machine));
    await signer.clock.advance(1_000);
    await signer.cluster.setEpoch(2);
    signer.restart(2);
    expect(await signer.sign(await signer.request(machine))).toHaveProperty('controlPlaneKeys');
    const record = signer.own.record('c1', CONTROL_PLANE);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, {}, { endsMs: signer.clock.nowMs() - 1 }));
    const own = await signer.request(signer.own, { address: '192.0.2.1' });
    expect(await signer.sign(own)).toHaveProperty('controlPlaneKeys');
  });

  test('that was used stays valid after its end for renewals', async () => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, {}, { endsMs: signer.clock.nowMs() + 60_000 }));
    await signer.sign(await signer.request(machine));
    await signer.clock.advance(120_000);
    signer.restart();
    expect(await signer.sign(await signer.request(machine))).toHaveProperty('controlPlaneKeys');
  });

  test('that has expired stays valid only for a node with a control-plane certificate of the cluster', async () => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, {}, { endsMs: signer.clock.nowMs() - 1 }));
    const { keyPem, caPem } = signer.cluster.authority;
    const ownerDocs = new KeyCertificateSigner({ keyPem, caPem, nowMs: () => 1 });
    const certificate = (pubKeyDer: Uint8Array, isControlPlane: boolean): Promise<string> =>
      ownerDocs.issue(nodeLeaf({ clusterId: 'c0ffee', pubKeyDer, addresses: [], isControlPlane }));
    for (const pem of [
      '',
      'x',
      await certificate(machine.pubKeyDer, false),
      await certificate(new SignerMachine().pubKeyDer, true),
    ]) {
      const request = { ...(await signer.request(machine)), nodeCertPem: pem };
      await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-expired'));
    }
    const request = {
      ...(await signer.request(machine)),
      nodeCertPem: await certificate(machine.pubKeyDer, true),
    };
    expect(await signer.sign(request)).toHaveProperty('controlPlaneKeys');
  });

  test('cannot be replaced by an older one, also after a restart', async () => {
    const machine = granted();
    const record = machine.record('c2', roles);
    const newer = signer.owner.grantWrite(record, {}, { serial: 2 });
    const older = signer.owner.grantWrite(record);
    signer.write(newer);
    await signer.sign(await signer.request(machine));
    signer.restart();
    signer.write(older);
    await signer.clock.advance(1_000);
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-serial-old'));
  });

  test('contains the lowest serials that a new signer accepts', async () => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, { floors: { owners: 0, policy: 5, operators: 0 } }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-serial-old'));
  });

  test('is refused after a newer `owners` document was seen and deleted', async () => {
    const machine = granted();
    const second = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    const keys = [signer.owner, second].map(({ pubKey }) => Buffer.from(pubKey).toString('base64'));
    signer.write(signer.owner.documentWrite('owners', { keys }));
    await signer.sign(await signer.request(machine));
    signer.write(remove(documentKey('owners', 1)));
    signer.restart();
    await signer.clock.advance(1_000);
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-serial-old'));
  });
});

describe('addresses and names', () => {
  test.each([
    { name: 'of this control plane', address: '192.0.2.1' },
    { name: 'of the API', address: '192.0.2.100' },
    { name: 'of a service', address: '10.96.0.1' },
    { name: 'of a pod', address: '10.244.3.4' },
    { name: 'of the loopback', address: '127.0.0.1' },
  ])('of a worker are refused for an address $name', async ({ address }) => {
    const request = await signer.request(forged(['KubernetesWorker']), { address });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-address-other'));
  });

  test('of a worker are refused where a control plane that is off has them', async () => {
    await signer.sign(await signer.request(granted(), { address: '192.0.2.2' }));
    signer.restart();
    const worker = new SignerMachine();
    signer.put(worker.record('w1', ['KubernetesWorker']));
    const request = await signer.request(worker, { address: '192.0.2.2' });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-address-other'));
    signer.put(worker.record('c2', ['KubernetesWorker']));
    const named = await signer.request(worker, { address: '192.0.2.3' });
    await expect(signer.sign(named)).rejects.toEqual(coded('signer-address-other'));
  });

  test('that are malformed are refused', async () => {
    const request = await signer.request(forged(['KubernetesWorker']), { address: 'c1.example' });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });
});

describe('operator certificates', () => {
  const mine = generateKeyPem();
  const ask = async () =>
    new MemberSigner(signer.reads).signOperator(await createCertificateRequest(mine, 'x'), never);

  test('are refused for a record alone', async () => {
    const fingerprint = fingerprintOfKey(pubKeyDerOf(mine));
    const record = { version: 1, name: 'eve', fingerprint, role: 'owner', createdMs: 1 } as const;
    signer.write(put(records.operator.key(fingerprint), records.operator.encode(record)));
    await expect(ask()).rejects.toEqual(coded('signer-not-on-record'));
  });

  test('are refused for an `operators` document signed by another key', async () => {
    const by = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    const operators = [
      { name: 'eve', fingerprint: fingerprintOfKey(pubKeyDerOf(mine)), role: 'operator' as const },
    ];
    signer.write(signer.owner.documentWrite('operators', { operators }, { by }));
    await expect(ask()).rejects.toEqual(coded('owner-document-signer-unknown'));
  });

  test('are issued by the newest `operators` document of an owner, not by an older one', async () => {
    const operators = [
      { name: 'ann', fingerprint: fingerprintOfKey(pubKeyDerOf(mine)), role: 'operator' as const },
    ];
    const older = signer.owner.documentWrite('operators', { operators });
    signer.write(older);
    expect(await ask()).toContain('BEGIN CERTIFICATE');
    const others = [{ name: 'bob', fingerprint: `sha256:${'b'.repeat(64)}`, role: 'viewer' as const }];
    signer.write(signer.owner.documentWrite('operators', { operators: others }, { serial: 2 }));
    await expect(ask()).rejects.toEqual(coded('signer-not-on-record'));
    signer.restart();
    signer.write(older);
    await expect(ask()).rejects.toEqual(coded('owner-document-serial-old'));
  });

  test('are issued to owners without an `operators` document', async () => {
    const request = await createCertificateRequest(signer.owner.keyPem, 'x');
    expect(await new MemberSigner(signer.reads).signOperator(request, never)).toContain('BEGIN CERTIFICATE');
  });
});

test('the signer refuses control planes while its memory is damaged', async () => {
  const machine = granted();
  await signer.sign(await signer.request(machine));
  await signer.files.writeAtomic(`/memory/control-planes/${machine.nodeId}.json`, '{');
  signer.restart();
  const request = await signer.request(machine);
  await expect(signer.sign(request)).rejects.toEqual(coded('signer-memory-damaged'));
});

test('the signer requires a newer grant for another attestation key', async () => {
  const machine = granted();
  await signer.sign(await signer.request(machine));
  const [known] = (await signer.reads.memory.controlPlanes()).values();
  if (known === undefined) throw new TypeError('nothing is remembered');
  await signer.reads.memory.keepControlPlane({ ...known, akName: 'ab'.repeat(34) });
  await signer.clock.advance(1_000);
  const request = await signer.request(machine);
  await expect(signer.sign(request)).rejects.toEqual(coded('signer-machine-changed'));
  signer.write(signer.owner.grantWrite(machine.record('c2', CONTROL_PLANE), {}, { serial: 2 }));
  expect(await signer.sign(request)).toHaveProperty('controlPlaneKeys');
});
