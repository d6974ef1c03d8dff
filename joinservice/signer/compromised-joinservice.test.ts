import { beforeEach, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
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

/** A control plane with a grant that an owner signed. */
function granted(name = 'c2'): SignerMachine {
  const machine = new SignerMachine();
  const record = machine.record(name, CONTROL_PLANE);
  signer.put(record);
  signer.write(signer.owner.grantWrite(record));
  return machine;
}

function reservation(address: string, nodeId: string) {
  return put(records.address.key(address), records.address.encode({ version: 1, nodeId }));
}

/** A machine that belongs to the attacker. The attacker writes the etcd records about this machine. */
function forged(roles: Parameters<SignerMachine['record']>[1] = CONTROL_PLANE): SignerMachine {
  const machine = new SignerMachine();
  signer.put(machine.record('c9', roles));
  return machine;
}

test('a control plane with a grant gets every shared key, sealed to its own agent', async () => {
  const machine = granted();
  const signed = await signer.sign(await signer.request(machine));
  expect(await signer.open(machine, signed)).toMatchObject({
    'service-account.key': 'text of service-account.key',
  });
});

test('the shared keys are sealed with HPKE, or in the older format for an agent that does not support HPKE', async () => {
  const machine = granted();
  for (const [opensHpke, bytes] of [
    [true, 65],
    [false, 0],
  ] as const) {
    await signer.clock.advance(1_000);
    const signed = await signer.sign({ ...(await signer.request(machine)), opensHpke });
    expect(signed.controlPlaneKeys?.encapsulatedKey).toHaveLength(bytes);
    expect(await signer.open(machine, signed)).toHaveProperty(['service-account.key']);
  }
});

describe('an attacker who writes etcd and calls the signer gets no shared key', () => {
  test('for the record of a machine that belongs to the attacker', async () => {
    const request = await signer.request(forged());
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-grant-missing'));
  });

  test('for a grant signed by the attacker’s key', async () => {
    const machine = forged();
    const by = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    signer.write(signer.owner.grantWrite(machine.record('c9', CONTROL_PLANE), {}, { by }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-signer-unknown'));
  });

  test('for an `owners` document signed by the attacker’s key', async () => {
    const machine = forged();
    const by = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    const keys = [Buffer.from(by.pubKey).toString('base64')];
    signer.write(signer.owner.documentWrite('owners', { keys }, { by }));
    signer.write(signer.owner.grantWrite(machine.record('c9', CONTROL_PLANE), {}, { by }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-signer-unknown'));
  });

  test('for the grant of another node that the attacker stores under the etcd key of its own node', async () => {
    const other = new SignerMachine();
    const machine = forged();
    signer.write(signer.owner.grantWrite(other.record('c2', CONTROL_PLANE), {}, { at: machine.nodeId }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-grant-other'));
  });

  test('for the attacker’s key in the record of a node with a grant', async () => {
    const machine = granted();
    const mine = new SignerMachine();
    const pubKey = Buffer.from(mine.pubKeyDer).toString('base64');
    signer.put({ ...machine.record('c2', CONTROL_PLANE), pubKey });
    const request = { ...(await signer.request(mine)), nodeId: machine.nodeId };
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-not-on-record'));
  });

  test('for the statement of a control plane with another sealing key than the signed one', async () => {
    const machine = granted();
    const request = { ...(await signer.request(machine)), sealingPublicKey: recipientKey().pubKeyDer };
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });

  test.each([
    { name: 'address', swap: { address: '192.0.2.66' } },
    { name: 'roles', swap: { roles: ['KubernetesWorker'] } },
    { name: 'session', swap: { session: new Uint8Array(64).fill(9) } },
    { name: 'time', swap: { timeMs: 1 } },
  ])('for a statement with a replaced field: $name', async ({ swap }) => {
    const request = { ...(await signer.request(granted())), ...swap };
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });

  test('for evidence that the same machine made for another statement', async () => {
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

  test('for evidence that comes from another machine than the recorded one', async () => {
    const machine = granted();
    const request = await signer.request(machine);
    const { evidence } = await new SignerMachine(machine.keyPem).ask({ ...request, clusterId: 'c0ffee' });
    const { machine: other } = new SignerMachine();
    const record = machine.record('c2', CONTROL_PLANE);
    signer.put({ ...record, admission: { ...other, decidedBy: 'operator:o', timeMs: 1 } });
    await expect(signer.sign({ ...request, evidence })).rejects.toEqual(coded('signer-machine-other'));
  });

  test('for a configuration that no owner has signed', async () => {
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

  test('is enough without a grant if an owner has signed the inventory and it lists the key of the machine', async () => {
    const machine = forged();
    const write = configurationWrite(list(machine.machine.identity));
    signer.write(write, signer.owner.policyWrite(write, { serial: 2 }));
    const signed = await signer.sign(await signer.request(machine));
    expect(await signer.open(machine, signed)).toHaveProperty(['cluster-ca.key']);
  });

  test('grants no roles if no owner has signed the inventory', async () => {
    const machine = forged();
    signer.write(configurationWrite(list(machine.machine.identity)));
    await expect(signer.sign(await signer.request(machine))).rejects.toEqual(coded('signer-policy-unsigned'));
  });

  test('grants no roles to other machines', async () => {
    const write = configurationWrite(list(new SignerMachine().machine.identity));
    signer.write(write, signer.owner.policyWrite(write, { serial: 2 }));
    const request = await signer.request(forged());
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-grant-missing'));
  });

  test.each([
    { name: 'without the TPM’s enrolment', enrolment: new Uint8Array() },
    { name: 'with a malformed enrolment', enrolment: new Uint8Array(40) },
  ])('an inventory entry that lists a TPM gives no key $name', ({ enrolment }) => {
    const record = { ...new SignerMachine().machine, identity: `tpm-ek:${'0'.repeat(64)}` };
    const shows = { akName: 'ab'.repeat(34), machine: record };
    const close = (): unknown =>
      sealForTpm(new Secret(new Uint8Array(8)), shows, { enrolment, session: new Uint8Array(64) });
    expect(close).toThrow(coded('signer-machine-other'));
  });
});

describe('a statement that a machine signs to get a ticket', () => {
  test('is accepted again with the same sealing key, so that an interrupted join can continue', async () => {
    const machine = granted();
    const request = await signer.request(machine);
    await signer.sign(request);
    signer.restart();
    expect(await signer.open(machine, await signer.sign(request))).toHaveProperty(['cluster-ca.key']);
  });

  test('is refused after a newer statement of the machine, also after a restart of the signer', async () => {
    const machine = granted();
    const old = await signer.request(machine);
    await signer.clock.advance(1_000);
    await signer.sign(await signer.request(machine));
    await expect(signer.sign(old)).rejects.toEqual(coded('signer-statement-replayed'));
    signer.restart();
    await expect(signer.sign(old)).rejects.toEqual(coded('signer-statement-replayed'));
  });

  test('of a worker is refused after a newer statement', async () => {
    const machine = forged(['KubernetesWorker']);
    const old = await signer.request(machine);
    await signer.clock.advance(1_000);
    await signer.sign(await signer.request(machine));
    await expect(signer.sign(old)).rejects.toEqual(coded('signer-statement-replayed'));
  });

  test('a statement with another sealing key is accepted if it is newer than the last one of the machine', async () => {
    const machine = granted();
    await signer.sign(await signer.request(machine));
    await signer.clock.advance(1_000);
    const { keyPem, pubKeyDer } = recipientKey();
    const signed = await signer.sign(await signer.request(machine, { sealingPublicKey: pubKeyDer }));
    const again = Object.assign(new SignerMachine(machine.keyPem), { sealingKeyPem: keyPem });
    expect(await signer.open(again, signed)).toHaveProperty(['cluster-ca.key']);
  });

  test.each([
    { name: 'a statement that is too old', ageMs: 10 * 60_000 + 1 },
    { name: 'a statement with a future time', ageMs: -(5 * 60_000 + 1) },
  ])('$name is refused', async ({ ageMs }) => {
    const machine = granted();
    const request = await signer.request(machine, { timeMs: signer.clock.nowMs() - ageMs });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-statement-outdated'));
  });

  test('a statement for another cluster is refused', async () => {
    const machine = granted();
    const request = await signer.request(machine, { clusterId: 'decade' });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });

  test('a statement gives no key for roles that it does not contain', async () => {
    const signed = await signer.sign(await signer.request(granted(), { roles: ['KubernetesWorker'] }));
    expect(signed.controlPlaneKeys).toBeUndefined();
  });
});

describe('the grant of an owner', () => {
  const roles = [...CONTROL_PLANE];
  test.each([
    {
      name: 'a grant for another node key',
      body: { fingerprint: `sha256:${'0'.repeat(64)}` },
      over: {},
      code: 'signer-grant-other',
    },
    {
      name: 'a grant for another machine',
      body: { identity: `tpm-ek:${'0'.repeat(64)}` },
      over: {},
      code: 'signer-grant-other',
    },
    {
      name: 'a newer grant without control-plane roles',
      body: { roles: ['KubernetesWorker' as const] },
      over: {},
      code: 'signer-grant-other',
    },
    {
      name: 'a grant of another cluster',
      body: {},
      over: { clusterId: 'decade' },
      code: 'owner-document-cluster-mismatch',
    },
    { name: 'an expired grant', body: {}, over: { endsMs: 1_000 }, code: 'owner-document-expired' },
  ])('$name is refused', async ({ body, over, code }) => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, body, over));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded(code));
  });

  test('a grant from before a recovery is refused', async () => {
    const request = await signer.request(granted());
    signer.restart(2);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-epoch-old'));
  });

  test('a grant from before a recovery is refused even if only the cluster record shows the recovery', async () => {
    const request = await signer.request(granted());
    await signer.cluster.setEpoch(2);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-epoch-old'));
  });

  test('a grant from before a recovery stays valid for known control planes and this node', async () => {
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

  test('a grant that was used stays valid for renewals after it expired', async () => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, {}, { endsMs: signer.clock.nowMs() + 60_000 }));
    await signer.sign(await signer.request(machine));
    await signer.clock.advance(120_000);
    signer.restart();
    expect(await signer.sign(await signer.request(machine))).toHaveProperty('controlPlaneKeys');
  });

  test('an expired grant stays valid only for a node with a control-plane certificate of the cluster', async () => {
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
      const request = { ...(await signer.request(machine)), nodeCertificatePem: pem };
      await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-expired'));
    }
    const request = {
      ...(await signer.request(machine)),
      nodeCertificatePem: await certificate(machine.pubKeyDer, true),
    };
    expect(await signer.sign(request)).toHaveProperty('controlPlaneKeys');
  });

  test('a grant cannot be replaced by an older one, also after a restart of the signer', async () => {
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

  test('a grant contains the lowest serials that a new signer accepts', async () => {
    const machine = new SignerMachine();
    const record = machine.record('c2', roles);
    signer.put(record);
    signer.write(signer.owner.grantWrite(record, { floors: { owners: 0, policy: 5, operators: 0 } }));
    const request = await signer.request(machine);
    await expect(signer.sign(request)).rejects.toEqual(coded('owner-document-serial-old'));
  });

  test('a grant is refused if a newer `owners` document was seen and then deleted', async () => {
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
    { name: 'an address of this control plane', address: '192.0.2.1' },
    { name: 'an address of the Kubernetes API', address: '192.0.2.100' },
    { name: 'a service address', address: '10.96.0.1' },
    { name: 'a pod address', address: '10.244.3.4' },
    { name: 'a loopback address', address: '127.0.0.1' },
  ])('a worker certificate is refused for $name', async ({ address }) => {
    const request = await signer.request(forged(['KubernetesWorker']), { address });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-address-other'));
  });

  test('the address and name of a control plane that is off are refused for a worker', async () => {
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

  describe('the address and name of a removed control plane', () => {
    /** Control plane c2 at 192.0.2.2 whose records are deleted, and a new node with the same name that asks for that address. */
    async function replaced() {
      const removed = granted();
      signer.write(signer.owner.grantWrite(removed.record('c2', CONTROL_PLANE), {}, { serial: 2 }));
      await signer.sign(await signer.request(removed, { address: '192.0.2.2' }));
      signer.write(remove(records.node.key(removed.nodeId)));
      const next = new SignerMachine();
      signer.put(next.record('c2', ['KubernetesWorker']));
      const request = await signer.request(next, { address: '192.0.2.2' });
      const withdrawal = (over: Parameters<TestOwner['grantWrite']>[2] = {}) =>
        signer.owner.grantWrite(
          removed.record('c2', CONTROL_PLANE),
          { roles: ['KubernetesWorker'] },
          { serial: 3, ...over },
        );
      return { removed, request, withdrawal };
    }

    test('are free once an owner has withdrawn its grant, also when the withdrawal is deleted later', async () => {
      const { removed, request, withdrawal } = await replaced();
      signer.write(withdrawal());
      expect(await signer.sign(request)).toHaveProperty('kubeletServingCertificatePem');
      signer.write(remove(documentKey('grant', removed.nodeId)));
      signer.restart();
      expect(await signer.sign(request)).toHaveProperty('kubeletServingCertificatePem');
    });

    test('are free although the withdrawal has expired', async () => {
      const { request, withdrawal } = await replaced();
      signer.write(withdrawal({ endsMs: signer.clock.nowMs() - 1 }));
      expect(await signer.sign(request)).toHaveProperty('kubeletServingCertificatePem');
    });

    test.each([
      { name: 'its records are deleted without a signature', write: () => [] },
      {
        name: 'its grant is deleted',
        write: ({ removed }: Awaited<ReturnType<typeof replaced>>) => [
          remove(documentKey('grant', removed.nodeId)),
        ],
      },
      {
        name: 'somebody who is no owner withdraws its grant',
        write: ({ withdrawal }: Awaited<ReturnType<typeof replaced>>) => [
          withdrawal({ by: new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId }) }),
        ],
      },
      {
        name: 'an owner withdrew an earlier grant than the one that the signer knows',
        write: ({ withdrawal }: Awaited<ReturnType<typeof replaced>>) => [withdrawal({ serial: 1 })],
      },
      {
        name: 'an owner withdrew the grant of another node',
        write: ({ removed }: Awaited<ReturnType<typeof replaced>>) => [
          signer.owner.grantWrite(
            forged().record('c9', CONTROL_PLANE),
            { roles: ['KubernetesWorker'] },
            { serial: 3, at: removed.nodeId },
          ),
        ],
      },
    ])('stay reserved when $name', async ({ write }) => {
      const world = await replaced();
      signer.write(...write(world));
      await expect(signer.sign(world.request)).rejects.toEqual(coded('signer-address-other'));
    });

    test('a removed control plane gets no key for its earlier grant once the signer has seen the withdrawal', async () => {
      const { removed, request, withdrawal } = await replaced();
      signer.write(withdrawal());
      await signer.sign(request);
      signer.restart();
      const before = removed.record('c2', CONTROL_PLANE);
      signer.write(signer.owner.grantWrite(before, {}, { serial: 2 }));
      signer.put(before);
      await signer.clock.advance(1_000);
      await expect(signer.sign(await signer.request(removed, { address: '192.0.2.2' }))).rejects.toEqual(
        coded('owner-document-serial-old'),
      );
    });

    test('are reserved again when an owner grants it control-plane roles again', async () => {
      const { removed, request, withdrawal } = await replaced();
      signer.write(withdrawal());
      await signer.sign(request);
      signer.write(remove(records.node.key(request.nodeId)));
      const again = removed.record('c2', CONTROL_PLANE);
      signer.put(again);
      signer.write(signer.owner.grantWrite(again, {}, { serial: 4 }));
      await signer.clock.advance(1_000);
      await signer.sign(await signer.request(removed, { address: '192.0.2.2' }));
      const worker = forged(['KubernetesWorker']);
      await expect(signer.sign(await signer.request(worker, { address: '192.0.2.2' }))).rejects.toEqual(
        coded('signer-address-other'),
      );
    });
  });

  test('a worker gets no certificate for the address of a control plane, also if another signer signed for that control plane', async () => {
    const other = new SignerMachine();
    signer.put(other.record('c3', CONTROL_PLANE));
    signer.write(reservation('192.0.2.3', other.nodeId));
    const worker = forged(['KubernetesWorker']);
    const request = await signer.request(worker, { address: '192.0.2.3' });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-address-other'));
    signer.put(other.record('c3', ['KubernetesWorker']));
    expect(await signer.sign(request)).toHaveProperty('kubeletServingCertificatePem');
  });

  test('a serving certificate is valid for days, even if `kubeletMinutes` is a year', async () => {
    const { kubeletServingCertificatePem } = await signer.sign(
      await signer.request(forged(['KubernetesWorker'])),
    );
    const { validFrom, validTo } = new X509Certificate(kubeletServingCertificatePem);
    const days = (Date.parse(validTo) - Date.parse(validFrom)) / 86_400_000;
    expect(days).toBeLessThan(8);
  });

  test('malformed addresses and names are refused', async () => {
    const request = await signer.request(forged(['KubernetesWorker']), { address: 'c1.example' });
    await expect(signer.sign(request)).rejects.toEqual(coded('signer-request-invalid'));
  });
});

describe('operator certificates', () => {
  const mine = generateKeyPem();
  const ask = async () =>
    new MemberSigner(signer.reads).signOperator(await createCertificateRequest(mine, 'x'), never);

  test('an operator certificate is refused if there is only a record of the operator', async () => {
    const fingerprint = fingerprintOfKey(pubKeyDerOf(mine));
    const record = { version: 1, name: 'eve', fingerprint, role: 'owner', createdMs: 1 } as const;
    signer.write(put(records.operator.key(fingerprint), records.operator.encode(record)));
    await expect(ask()).rejects.toEqual(coded('signer-not-on-record'));
  });

  test('an operator certificate is refused for an `operators` document signed by another key', async () => {
    const by = new TestOwner({ clock: signer.clock, clusterId: signer.cluster.clusterId });
    const operators = [
      { name: 'eve', fingerprint: fingerprintOfKey(pubKeyDerOf(mine)), role: 'operator' as const },
    ];
    signer.write(signer.owner.documentWrite('operators', { operators }, { by }));
    await expect(ask()).rejects.toEqual(coded('owner-document-signer-unknown'));
  });

  test('operator certificates follow the newest `operators` document of an owner, not an older one', async () => {
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

  test('operator certificates are issued to owners without an `operators` document', async () => {
    const request = await createCertificateRequest(signer.owner.keyPem, 'x');
    expect(await new MemberSigner(signer.reads).signOperator(request, never)).toContain('BEGIN CERTIFICATE');
  });
});

test('the signer refuses a control plane while the file about its earlier statements is damaged', async () => {
  const machine = granted();
  await signer.sign(await signer.request(machine));
  await signer.files.writeAtomic(`/memory/control-planes/${machine.nodeId}.json`, '{');
  signer.restart();
  const request = await signer.request(machine);
  await expect(signer.sign(request)).rejects.toEqual(coded('signer-memory-damaged'));
});

test('the signer requires a newer grant when a control plane shows another attestation key', async () => {
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
