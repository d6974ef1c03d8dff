import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes, verify, X509Certificate } from 'node:crypto';
import {
  decodeEnrolmentRequest,
  decryptWithTpm,
  encodeChallenge,
  encodeEnrolmentRequest,
} from '../../internal/attestation/enrolment/index.ts';
import {
  diskShareAnswer,
  diskShareEvidenceBinding,
  encodeDiskShareStatement,
  ticketEvidenceBinding,
  type DiskShareEnvelope,
  type DiskShareStatement,
} from '../../internal/crypto/index.ts';
import { put, remove } from '../../internal/etcd/index.ts';
import { records, type NodeRecord } from '../../internal/records/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  configurationWrite,
  createMemoryLogger,
  createSwtpmFactory,
  tpmHardware,
  tpmIdentity,
  type MachineHardware,
} from '../../internal/testing/index.ts';
import { extendPcr, type Tpm } from '../../internal/tpm/index.ts';
import { GiveDiskShareRequestSchema } from '../signerproto/gen/signer_pb.js';
import { DiskShareGiver, type DiskShareAnswer, type DiskShareRequest } from './disk-share-giver.ts';
import { FakeSigner, SignerMachine } from './fake-signer.ts';
import { KeyRing } from './key-ring.ts';
import { signerHandlers } from './serve-signer.ts';

const signal = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });
const UUID = '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f';
const OTHER_UUID = '1f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f';
const SECRET = '5e'.repeat(32);
const configurationWith = (
  registers: Readonly<Record<string, unknown>>,
  machines: string | readonly string[] = 'any-proved',
) => ({
  attestation: {
    firstContact: 'fingerprint',
    variants: ['tpm'],
    policy: {
      name: 'test',
      profile: 'identity',
      machines,
      registers,
      tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
    },
  },
  join: { policy: 'approve', inventory: [] },
});
const CONFIGURATION = configurationWith({ pcr7: { expected: '00'.repeat(32) } });

let ending: AsyncDisposableStack;
beforeAll(async () => {
  ending = new AsyncDisposableStack();
  [mine, other] = [await chip(), await chip()];
}, 60_000);
afterAll(() => ending.disposeAsync());

/** A software TPM of its own. */
async function chip(): Promise<Tpm> {
  const from = ending.use(await createSwtpmFactory());
  return ending.use(ending.use(await from.start()).open());
}

let mine: Tpm;
let other: Tpm;
let signer: FakeSigner;
let record: NodeRecord;
/** The hardware of a machine of this boot: its attestation key is not the one on record. */
let boot: MachineHardware;
beforeEach(async () => {
  signer = await FakeSigner.create();
  await signer.files.writeAtomic('/keys/disk-shares.key', SECRET);
  sign(CONFIGURATION);
  record = await member(mine, 'w1');
  boot = bootOf(mine);
});

function bootOf(tpm: Tpm): MachineHardware {
  return tpmHardware(tpm, new Secret<Uint8Array>(new Uint8Array(randomBytes(32))));
}

/** Stores a configuration that an owner has signed. */
function sign(configuration: Parameters<typeof configurationWrite>[0], serial = 2): void {
  const write = configurationWrite(configuration);
  signer.write(write, signer.owner.policyWrite(write, { serial }));
}

/** Records a worker on this TPM. */
async function member(tpm: Tpm, name: string, over: Partial<NodeRecord> = {}): Promise<NodeRecord> {
  const machine = new SignerMachine();
  const identity = await tpmIdentity(tpm);
  const admission = { ...machine.machine, identity, variant: 'tpm', decidedBy: 'operator:o', timeMs: 1 };
  const node = machine.record(name, ['KubernetesWorker'], { admission, ...over });
  signer.put(node);
  const held = { version: 1, nodeId: node.nodeId } as const;
  signer.write(put(records.identity.key(identity), records.identity.encode(held)));
  return node;
}

/** The request of a machine whose disk is closed. `lie`: fields that differ from what the evidence is bound to. */
async function ask(
  of: Partial<DiskShareStatement> = {},
  lie: Partial<DiskShareRequest> = {},
  hardware = boot,
): Promise<DiskShareRequest> {
  const said = {
    ...{ clusterId: signer.cluster.clusterId, uuid: UUID, timeMs: signer.clock.nowMs() },
    ...{ enrolment: await hardware.enrolment(), session: new Uint8Array(randomBytes(64)) },
    ...of,
  };
  const statement = encodeDiskShareStatement(said);
  const document = await hardware.issuer.issue(diskShareEvidenceBinding(statement), signal);
  return { ...said, evidence: [{ variant: 'tpm', document }], ...lie };
}

const give = async (request: DiskShareRequest): Promise<DiskShareAnswer> =>
  (await new DiskShareGiver(signer.reads).give(request, signal)).answer;

/** The share, as a machine with this hardware decrypts it. */
async function open(
  answer: DiskShareAnswer,
  { session }: DiskShareRequest,
  hardware = boot,
): Promise<string> {
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const { challenge, nonce, ciphertext } = answer;
  const box = { challenge: text(challenge), nonce: text(nonce), ciphertext: text(ciphertext) };
  const share = await decryptWithTpm(box, session, (each, of) => hardware.answer(encodeChallenge(each), of));
  return Buffer.from(share.reveal()).toString('hex');
}

async function shareOf(of: Partial<DiskShareStatement> = {}, hardware = boot): Promise<string> {
  await signer.clock.advance(1);
  const request = await ask(of, {}, hardware);
  return open(await give(request), request, hardware);
}

/** Whether the cluster CA has signed the answer to this request. */
function isSigned(request: DiskShareRequest, envelope: DiskShareEnvelope, signature: Uint8Array): boolean {
  const statement = encodeDiskShareStatement({ ...request, clusterId: signer.cluster.clusterId });
  const { publicKey } = new X509Certificate(signer.cluster.authority.caPem);
  const key = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const;
  return verify('sha256', diskShareAnswer(statement, envelope), key, signature);
}

describe('a member gets the cluster share of its disk', () => {
  test('the same one at each start, with each attestation key and after a restart of the signer', async () => {
    const share = await shareOf();
    expect(share).toMatch(/^[0-9a-f]{64}$/);
    signer.restart();
    expect(await shareOf({}, bootOf(mine))).toBe(share);
  });

  test('other ones for another disk, another machine and another secret', async () => {
    await member(other, 'w2');
    const shares = [await shareOf(), await shareOf({ uuid: OTHER_UUID }), await shareOf({}, bootOf(other))];
    await signer.files.writeAtomic('/keys/disk-shares.key', 'a5'.repeat(32));
    expect(new Set([...shares, await shareOf()]).size).toBe(4);
  });

  test('the same one in a cluster that was restored: with the secret of a backup, another cluster CA and another epoch', async () => {
    const share = await shareOf();
    const backup = Buffer.from((await signer.reads.keys.controlPlaneKeys()).reveal()).toString();
    const keys = JSON.parse(backup) as Readonly<Record<string, string>>;
    signer = await FakeSigner.create();
    await signer.files.writeAtomic('/keys/disk-shares.key', keys['disk-shares.key'] ?? '');
    sign(CONFIGURATION);
    await member(mine, 'w1');
    await signer.cluster.setEpoch(2);
    signer.restart(2);
    expect(await shareOf({}, bootOf(mine))).toBe(share);
  });

  test('another one, signed as well, from a control plane with another secret: only the machine can tell which one is right', async () => {
    const share = await shareOf();
    await signer.files.makeDirectory('/other');
    for (const name of ['cluster-ca.crt', 'cluster-ca.key'])
      await signer.files.writeAtomic(
        `/other/${name}`,
        (await signer.files.read(`/keys/${name}`, 9_999)) ?? '',
      );
    await signer.files.writeAtomic('/other/disk-shares.key', 'a5'.repeat(32));
    const keys = new KeyRing({
      files: signer.files,
      directory: '/other',
      nowMs: () => signer.clock.nowMs(),
    });
    await signer.clock.advance(1);
    const request = await ask();
    const { answer } = await new DiskShareGiver({ ...signer.reads, keys }).give(request, signal);
    expect(await open(answer, request)).not.toBe(share);
    const { signature, ...envelope } = answer;
    expect(isSigned(request, envelope, signature)).toBe(true);
  });

  test('after a lock to this cluster as well, as a running agent asks', async () => {
    const tpm = await chip();
    await member(tpm, 'w3');
    const locked = bootOf(tpm);
    const before = await shareOf({}, locked);
    await locked.lock(signer.cluster.clusterId);
    expect(await shareOf({}, locked)).toBe(before);
  });

  test('signed by the cluster CA, over the statement and the encrypted share', async () => {
    const request = await ask();
    const { signature, ...envelope } = await give(request);
    expect(isSigned(request, envelope, signature)).toBe(true);
    expect(isSigned(request, { ...envelope, nonce: new Uint8Array(12) }, signature)).toBe(false);
  });

  test('and the log of the signer says to which node and TPM, and for which disk', async () => {
    const { log, records: lines } = createMemoryLogger();
    const { evidence, ...request } = await ask();
    const asked = create(GiveDiskShareRequestSchema, { ...request, timeMs: BigInt(request.timeMs) });
    const call = { peer: {}, signal } as never;
    await signerHandlers(signer.reads, log).giveDiskShare(
      { ...asked, evidence: [...evidence] } as never,
      call,
    );
    const identity = await tpmIdentity(mine);
    expect(lines.map(({ message, fields }) => [message, fields])).toEqual([
      ['share of a state disk given', { node: record.nodeId, identity, uuid: UUID }],
    ]);
  });
});

describe('a share is for one TPM only', () => {
  test('a machine that claims the TPM of a member cannot decrypt the share', async () => {
    // A compromised join service sends the endorsement key of the member with the attestation key of its own TPM.
    const own = bootOf(other);
    const [theirs, ours] = [
      decodeEnrolmentRequest(await boot.enrolment()),
      decodeEnrolmentRequest(await own.enrolment()),
    ];
    const enrolment = encodeEnrolmentRequest({ ...theirs, attestationKey: ours.attestationKey });
    const request = await ask({ enrolment }, {}, own);
    const answer = await give(request);
    await expect(open(answer, request, own)).rejects.toEqual(coded('tpm-credential-rejected'));
    await expect(open(answer, request, boot)).rejects.toThrow();
    // Nor does that make the statements of the member look old.
    await expect(shareOf({ timeMs: signer.clock.nowMs() - 1 })).resolves.toMatch(/^[0-9a-f]{64}$/);
  });

  test('an answer that somebody has recorded is useless in another session, and after the next start', async () => {
    const request = await ask();
    const answer = await give(request);
    await expect(open(answer, { ...request, session: new Uint8Array(64) })).rejects.toThrow();
    await expect(open(answer, request, bootOf(mine))).rejects.toEqual(coded('tpm-credential-rejected'));
  });

  test('evidence with another attestation key than that of the request is refused', async () => {
    const request = await ask({ enrolment: await bootOf(mine).enrolment() });
    await expect(give(request)).rejects.toEqual(coded('signer-machine-other'));
  });
});

describe('the signer refuses', () => {
  test('the machine of a removed node, also with a request from before', async () => {
    const request = await ask();
    await give(request);
    signer.write(
      remove(records.node.key(record.nodeId)),
      remove(records.identity.key(await tpmIdentity(mine))),
    );
    await expect(give(request)).rejects.toEqual(coded('signer-share-not-member'));
    await expect(give(await ask())).rejects.toEqual(coded('signer-share-not-member'));
  });

  test.each([
    { name: 'the machine of a decommissioned node', over: { state: 'DECOMMISSIONED' as const } },
    { name: 'a record that names another machine', over: { admission: undefined } },
    {
      name: 'a record whose key is not that of its node',
      over: { pubKey: Buffer.from(new SignerMachine().pubKeyDer).toString('base64') },
    },
  ])('a machine by its record: $name', async ({ over }) => {
    signer.put({ ...record, ...over });
    await expect(give(await ask())).rejects.toEqual(coded('signer-share-not-member'));
  });

  test('a machine that is not on record', async () => {
    await expect(give(await ask({}, {}, bootOf(other)))).rejects.toEqual(coded('signer-share-not-member'));
  });

  test.each([
    { name: 'another disk', lie: { uuid: OTHER_UUID } },
    { name: 'another session', lie: { session: new Uint8Array(64).fill(9) } },
    { name: 'another time', lie: { timeMs: 1_000 } },
  ])('evidence that the machine has made for $name', async ({ lie }) => {
    const request = await ask({ timeMs: signer.clock.nowMs() - 2_000 });
    const changed = {
      ...request,
      ...lie,
      ...(lie.timeMs === undefined ? {} : { timeMs: signer.clock.nowMs() }),
    };
    await expect(give(changed)).rejects.toEqual(coded('signer-evidence-refused'));
  });

  test('evidence that the machine has made for a ticket', async () => {
    const request = await ask();
    const statement = encodeDiskShareStatement({ ...request, clusterId: signer.cluster.clusterId });
    const document = await boot.issuer.issue(ticketEvidenceBinding(statement), signal);
    const evidence = [{ variant: 'tpm', document }];
    await expect(give({ ...request, evidence })).rejects.toEqual(coded('signer-evidence-refused'));
  });

  test('a statement for another cluster', async () => {
    await expect(give(await ask({ clusterId: 'decade' }))).rejects.toEqual(coded('signer-evidence-refused'));
  });

  test('no evidence, and evidence of another variant', async () => {
    const request = await ask();
    const evidence = request.evidence.map((each) => ({ ...each, variant: 'machine-key' }));
    for (const shown of [[], evidence])
      await expect(give({ ...request, evidence: shown })).rejects.toEqual(coded('signer-evidence-missing'));
  });

  test('software that the configuration does not accept', async () => {
    const tpm = await chip();
    await member(tpm, 'w4');
    await tpm.use(signal, (connection) =>
      extendPcr(connection, { pcr: 7, hash: 'sha256', digest: new Uint8Array(32).fill(1) }, signal),
    );
    await expect(give(await ask({}, {}, bootOf(tpm)))).rejects.toEqual(coded('signer-evidence-refused'));
  });

  test('a machine that is locked to another cluster', async () => {
    const tpm = await chip();
    await member(tpm, 'w5');
    const elsewhere = bootOf(tpm);
    await elsewhere.lock('decade');
    await expect(give(await ask({}, {}, elsewhere))).rejects.toEqual(coded('signer-evidence-refused'));
  });

  test('a machine that was wiped and locked again since it joined', async () => {
    const { admission } = record;
    if (admission === undefined) throw new TypeError('the record has a machine');
    signer.put({ ...record, admission: { ...admission, lockCounter: '7' } });
    await expect(give(await ask())).rejects.toEqual(coded('signer-machine-other'));
  });

  test('a configuration that no owner has signed', async () => {
    signer.write(configurationWrite(configurationWith({})));
    await expect(give(await ask())).rejects.toEqual(coded('signer-policy-unsigned'));
  });

  test('a machine that the signed configuration does not list', async () => {
    const listing = async (tpm: Tpm) => configurationWith({}, [await tpmIdentity(tpm)]);
    sign(await listing(other), 3);
    await expect(give(await ask())).rejects.toEqual(coded('signer-share-unlisted'));
    sign(await listing(mine), 4);
    expect(await shareOf()).toMatch(/^[0-9a-f]{64}$/);
  });

  test('software by the configuration that an owner has signed, if somebody replaces it meanwhile', async () => {
    const tpm = await chip();
    await member(tpm, 'w6');
    await tpm.use(signal, (connection) =>
      extendPcr(connection, { pcr: 7, hash: 'sha256', digest: new Uint8Array(32).fill(1) }, signal),
    );
    const request = await ask({}, {}, bootOf(tpm));
    const { configuration } = signer.reads;
    const replaced = Object.create(configuration, {
      now: {
        value: async () => {
          const signed = await configuration.now(signal);
          signer.write(configurationWrite(configurationWith({})));
          return signed;
        },
      },
    }) as typeof configuration;
    const giver = new DiskShareGiver({ ...signer.reads, configuration: replaced });
    await expect(giver.give(request, signal)).rejects.toEqual(coded('signer-evidence-refused'));
  });

  test.each([
    { name: 'a statement of more than ten minutes ago', ageMs: 10 * 60_000 + 1 },
    { name: 'a statement from the future', ageMs: -(5 * 60_000 + 1) },
  ])('a statement by its time: $name', async ({ ageMs }) => {
    const request = await ask({ timeMs: signer.clock.nowMs() - ageMs });
    await expect(give(request)).rejects.toEqual(coded('signer-statement-outdated'));
  });

  test('a statement that is older than the newest one of this start; the same one again gets an answer', async () => {
    const old = await ask();
    await signer.clock.advance(1_000);
    const newest = await ask();
    const share = await open(await give(newest), newest);
    await expect(give(old)).rejects.toEqual(coded('signer-statement-replayed'));
    expect(await open(await give(newest), newest)).toBe(share);
  });

  test.each([
    { name: 'a malformed UUID', of: {}, lie: { uuid: 'x' } },
    { name: 'a malformed enrolment', of: { enrolment: new Uint8Array(40) }, lie: {} },
    { name: 'a malformed session', of: {}, lie: { session: new Uint8Array(3) } },
  ])('a malformed request: $name', async ({ of, lie }) => {
    await expect(give(await ask(of, lie))).rejects.toEqual(coded('signer-request-invalid'));
  });

  test('when it has no secret for disk shares', async () => {
    await signer.files.remove('/keys/disk-shares.key');
    await expect(give(await ask())).rejects.toEqual(coded('signer-share-unavailable'));
  });

  test('when its secret for disk shares is malformed', async () => {
    await signer.files.writeAtomic('/keys/disk-shares.key', 'short');
    await expect(give(await ask())).rejects.toEqual(coded('signer-share-malformed'));
  });
});
