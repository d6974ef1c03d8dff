import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { answerChallenge, readEnrolmentRequest } from '../../../internal/attestation/enrolment/index.ts';
import { MachineKeyIssuer, proveKey } from '../../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { CodedError, defineErrors, fault, retryable } from '../../../internal/errors/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { ShareSource } from '../../../internal/statedisk/index.ts';
import { createSwtpmFactory } from '../../../internal/testing/index.ts';
import { createMachineKeys, FakeCluster } from '../../../internal/testing/cluster/fake-cluster.ts';
import { findFreePort } from '../../../internal/testing/network/free-port.ts';
import type { Tpm } from '../../../internal/tpm/index.ts';
import { createShareUpgrades, knownEndpoints } from '../../joinclient/index.ts';
import { DiskError, type ShareQuestion } from '../../disk/index.ts';
import { createAskShare, createProbeShare } from './ask-share.ts';

const clock = new SystemClock();
const { signal } = new AbortController();
const UUID = '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f';
const SHARE = new Uint8Array(32).fill(5);
const codes = defineErrors({
  'signer-share-not-member': fault.peer.refused('no', ''),
  'join-share-not-member': fault.peer.refused('removed', ''),
  'signer-share-unavailable': fault.operator.precondition('no secret', ''),
  'join-busy': retryable.system.unreachable('later', ''),
  'signer-key-missing': retryable.system.precondition('starting', ''),
  'join-share-too-often': retryable.peer.refused('later', ''),
  'signer-statement-outdated': retryable.peer.refused('clock', ''),
  'etcd-no-space': fault.system.unhealthy('full', ''),
});

let ending: AsyncDisposableStack;
let tpm: Tpm;
let other: Tpm;
let cluster: FakeCluster;
beforeAll(async () => {
  ending = new AsyncDisposableStack();
  const chip = async (): Promise<Tpm> => {
    const factory = ending.use(await createSwtpmFactory());
    return ending.use(ending.use(await factory.start()).open());
  };
  [tpm, other] = [await chip(), await chip()];
}, 60_000);
afterAll(() => ending.disposeAsync());
beforeEach(async () => {
  cluster = await FakeCluster.start(clock);
  cluster.behaviour.diskShare = (request, session) =>
    Promise.resolve(answered(request, session, { share: SHARE }));
});
afterEach(() => cluster[Symbol.asyncDispose]());

const answered = (...all: Parameters<FakeCluster['diskShareFor']>) => cluster.diskShareFor(...all);

function source(over: Partial<ShareSource> = {}): ShareSource {
  return {
    clusterId: cluster.clusterId,
    clusterCaPem: cluster.caPem,
    caGeneration: 1,
    floors: {},
    controlPlanes: [{ nodeId: cluster.nodeId, host: '192.0.2.1' }],
    endpoints: [],
    proven: [],
    ...over,
  };
}

/** A machine that knows these endpoints beside those of its record, which do not answer. */
function machine(
  endpoints: readonly string[] = [cluster.endpoint],
  nowMs = () => clock.nowMs(),
  known: Pick<Parameters<typeof createAskShare>[1], 'readKnownCa'> = {},
) {
  const keys = createMachineKeys();
  const privKey = new Secret(keys.privateKey);
  const own = { tpm, attestationKeySecret: new Secret<Uint8Array>(new Uint8Array(32).fill(7)) };
  const parts: Parameters<typeof createAskShare> = [
    {
      clock: Object.assign(new SystemClock(), { nowMs }),
      evidence: {
        proveKey: (label, session) => proveKey(label, session, privKey),
        readEnrolment: () => readEnrolmentRequest(own, signal),
        answerChallenge: (challenge, session) => answerChallenge(own, challenge, session, signal),
        forDiskShare: (statement) => Promise.resolve({ variant: 'tpm', document: statement }),
      },
      upgrade: createShareUpgrades({
        issuers: [new MachineKeyIssuer({ privKey })],
        attestation: undefined,
        clock,
      }),
    },
    {
      sources: [knownEndpoints('test', () => endpoints)],
      ownerKeys: [cluster.ownerKey],
      pinned: undefined,
      ...known,
    },
  ];
  const question = (from: ShareSource) => ({ uuid: UUID, source: from, among: 'all' }) as const;
  const ask = (from = source(), over: Partial<ShareQuestion> = {}) =>
    createAskShare(...parts)({ ...question(from), test: () => Promise.resolve(), ...over }, signal);
  const probe = (from = source()) => createProbeShare(...parts)(question(from), signal);
  return Object.assign(ask, { probe });
}

const unanswered = { controlPlanes: [{ nodeId: 'node-9', host: '127.0.0.9' }] };

describe('createAskShare()', () => {
  test('gets the share that a signer has encrypted for this TPM, also at a provisioned endpoint', async () => {
    const { share, nodeId } = await machine()(source(unanswered));
    expect([share.reveal(), nodeId]).toEqual([SHARE, cluster.nodeId]);
    expect(cluster.said).toEqual(['introduce', 'disk share']);
  });

  test('asks with the time of the cluster, so that a wrong clock of the machine does not matter', async () => {
    const seen: number[] = [];
    cluster.behaviour.diskShare = (request, session) => {
      seen.push(Math.abs(Number(request.timeMs) - clock.nowMs()));
      return Promise.resolve(answered(request, session, { share: SHARE }));
    };
    await machine(undefined, () => clock.nowMs() - 3_600_000)(source(unanswered));
    expect(seen.every((differenceMs) => differenceMs < 60_000)).toBe(true);
  });

  test('asks the next endpoint if one belongs to another cluster', async () => {
    await using refusing = await FakeCluster.start(clock, { ownerKey: cluster.owner.privateKey });
    const { share } = await machine([refusing.endpoint, cluster.endpoint])(source(unanswered));
    expect(share.reveal()).toEqual(SHARE);
  });

  test('asks the next control plane if a signer gives a wrong share, and says so if no other one answers', async () => {
    await using second = await cluster.startSecond(clock);
    second.behaviour.diskShare = (request, session) =>
      Promise.resolve(second.diskShareFor(request, session, { share: new Uint8Array(32) }));
    const wrong = new DiskError('disk-share-wrong', 'opening the disk');
    const test = (share: Secret<Uint8Array>): Promise<void> =>
      share.reveal()[0] === SHARE[0] ? Promise.resolve() : Promise.reject(wrong);
    const found = await machine([second.endpoint, cluster.endpoint])(source(unanswered), { test });
    expect([found.share.reveal(), found.nodeId]).toEqual([SHARE, cluster.nodeId]);
    expect(second.said).toContain('disk share');
    await expect(machine([second.endpoint])(source(unanswered), { test })).rejects.toMatchObject({
      code: 'disk-share-wrong',
      message: `asking ${second.endpoint} for the share of the state disk`,
      cause: wrong,
    });
  });

  test('asks the endpoints of a new list alone, which are those of its control planes, of operators and of relays', async () => {
    const only = { among: 'source' } as const;
    await expect(machine()(source(unanswered), only)).rejects.toMatchObject({ code: 'disk-share-awaited' });
    expect(cluster.said).toEqual([]);
    const at = { ...unanswered, endpoints: [cluster.endpoint] };
    expect(await machine([])(source(at), only)).toMatchObject({ endpoint: cluster.endpoint });
    expect(await machine([])(source({ ...unanswered, proven: [cluster.endpoint] }))).toBeDefined();
  });

  test('asks no control plane whose share is known, at whatever endpoint', async () => {
    const known = machine()(source(unanswered), { except: cluster.nodeId });
    await expect(known).rejects.toMatchObject({ code: 'disk-share-awaited' });
    expect(cluster.said).not.toContain('disk share');
  });

  test.each([
    {
      name: 'a share that the cluster CA has not signed',
      change: (answer: ReturnType<typeof answered>) => ({ ...answer, signature: new Uint8Array(64) }),
    },
    {
      name: 'an answer that was altered after the signature',
      change: (answer: ReturnType<typeof answered>) => ({ ...answer, nonce: new Uint8Array(12) }),
    },
    {
      name: 'an answer that is too long',
      change: (answer: ReturnType<typeof answered>) => ({ ...answer, ciphertext: new Uint8Array(5000) }),
    },
  ])('refuses an answer: $name', async ({ change }) => {
    cluster.behaviour.diskShare = (request, session) =>
      Promise.resolve(change(answered(request, session, { share: SHARE })));
    await expect(machine()(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-invalid',
      cause: { message: expect.stringContaining('reading the share of the state disk') as unknown },
    });
  });

  test('refuses a share of another length, and one that is encrypted for another TPM', async () => {
    cluster.behaviour.diskShare = (request, session) =>
      Promise.resolve(answered(request, session, { share: new Uint8Array(31) }));
    await expect(machine()(source(unanswered))).rejects.toMatchObject({ code: 'disk-share-invalid' });
    const own = { tpm: other, attestationKeySecret: new Secret<Uint8Array>(new Uint8Array(32)) };
    const enrolled = await readEnrolmentRequest(own, signal);
    cluster.behaviour.diskShare = (request, session) =>
      Promise.resolve(answered(request, session, { share: SHARE, enrolled }));
    await expect(machine()(source(unanswered))).rejects.toMatchObject({ code: 'disk-share-invalid' });
  });

  test('sends nothing to a cluster with another CA, another id or another owner', async () => {
    await using foreign = await FakeCluster.start(clock);
    for (const from of [
      source({ ...unanswered, clusterCaPem: foreign.caPem }),
      source({ ...unanswered, clusterId: foreign.clusterId }),
    ])
      await expect(machine()(from)).rejects.toMatchObject({ code: 'disk-share-awaited' });
    await expect(machine([foreign.endpoint])(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-awaited',
    });
    expect([...cluster.said, ...foreign.said]).not.toContain('disk share');
  });

  /** A cluster whose CA an owner has signed as the replacement of the one in the record. */
  async function replaced() {
    const before = await FakeCluster.start(clock);
    const hash = (pem: string): string => createHash('sha256').update(`${pem.trim()}\n`).digest('hex');
    const [previous, next] = [before, cluster].map(({ caPem }) => ({ 'cluster-ca': hash(caPem) }));
    if (previous === undefined || next === undefined) throw new TypeError('two CAs');
    const document = cluster.keysDocument({ generation: 2, previous, next });
    cluster.behaviour.replacement = { currentCaPem: cluster.caPem, ownerDocuments: [document] };
    return before;
  }

  test('follows a replaced cluster CA by a document of an owner that is not older than those in the record', async () => {
    await using before = await replaced();
    const from = { ...unanswered, clusterCaPem: before.caPem };
    await expect(machine()(source(from))).resolves.toBeDefined();
    await expect(machine()(source({ ...from, floors: { keys: { serial: 2 } } }))).rejects.toMatchObject({
      code: 'disk-share-awaited',
    });
  });

  test('trusts the cluster CA that a running member knows, whatever its record says', async () => {
    await using before = await replaced();
    const floors = { keys: { serial: 2 } };
    const readKnownCa = () => Promise.resolve({ trustedPem: before.caPem, generation: 1, floors });
    await expect(machine(undefined, undefined, { readKnownCa })(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-awaited',
    });
  });

  test('takes an answer that the signer has signed with the previous cluster CA, during its rotation', async () => {
    await using before = await replaced();
    cluster.behaviour.diskShare = (request, session) =>
      Promise.resolve(answered(request, session, { share: SHARE, by: before }));
    const { share } = await machine()(source({ ...unanswered, clusterCaPem: before.caPem }));
    expect(share.reveal()).toEqual(SHARE);
  });

  test('says that a signer or a join service refuses, with its code', async () => {
    for (const code of ['signer-share-not-member', 'join-share-not-member'] as const) {
      cluster.behaviour.diskShare = () => Promise.reject(new CodedError(codes, code, 'giving'));
      await expect(machine()(source(unanswered))).rejects.toMatchObject({
        code: 'disk-share-refused',
        details: { code, isLasting: true },
      });
    }
  });

  test.each(['join-share-too-often', 'signer-statement-outdated', 'etcd-no-space'] as const)(
    'calls no refusal lasting that may pass: %s',
    async (code) => {
      cluster.behaviour.diskShare = () => Promise.reject(new CodedError(codes, code, 'giving'));
      await expect(machine()(source(unanswered))).rejects.toMatchObject({
        code: 'disk-share-refused',
        details: { code, isLasting: false },
      });
    },
  );

  test('takes no refusal from a cluster that has not proved itself', async () => {
    cluster.behaviour.beforeProof = () => Promise.reject(new CodedError(codes, 'join-share-not-member', ''));
    await expect(machine()(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-awaited',
      details: { code: 'join-share-not-member' },
    });
  });

  test('says that none gives the share if one control plane has no secret and the others do not answer', async () => {
    cluster.behaviour.diskShare = () => Promise.reject(new CodedError(codes, 'signer-share-unavailable', ''));
    await expect(machine()(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-awaited',
      details: { code: 'signer-share-unavailable' },
    });
  });

  test('says the same, whichever of two control planes answers first', async () => {
    await using second = await cluster.startSecond(clock);
    const refusal = (code: keyof typeof codes): CodedError => new CodedError(codes, code, 'giving');
    const answeredFirst = Promise.withResolvers<void>();
    second.behaviour.diskShare = async () => {
      await answeredFirst.promise;
      throw refusal('join-share-not-member');
    };
    cluster.behaviour.diskShare = () => {
      void clock.sleep(200, signal).then(() => answeredFirst.resolve());
      return Promise.reject(refusal('signer-share-not-member'));
    };
    const answer = machine([second.endpoint, cluster.endpoint])(source(unanswered));
    await expect(answer).rejects.toMatchObject({
      message: `asking ${second.endpoint} for the share of the state disk`,
      details: { code: 'join-share-not-member' },
    });
  });

  test('says that attested TLS refuses the software of the machine, also beside endpoints that do not answer', async () => {
    cluster.behaviour.acceptsEvidence = false;
    await expect(machine()(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-refused',
      message: `asking ${cluster.endpoint} for the share of the state disk`,
      details: { code: 'atls-alert-evidence-rejected', isLasting: false },
    });
    expect(cluster.said).toEqual([]);
  });

  test('says that nobody answers, also while a control plane is busy or starts', async () => {
    for (const code of ['join-busy', 'signer-key-missing'] as const) {
      cluster.behaviour.diskShare = () => Promise.reject(new CodedError(codes, code, 'giving'));
      await expect(machine()(source(unanswered))).rejects.toMatchObject({ code: 'disk-share-awaited' });
    }
    const nobody = `127.0.0.1:${await findFreePort()}`;
    await expect(machine([nobody])(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-awaited',
    });
  });

  test('says why it does not trust a cluster that answers, beside endpoints that do not', async () => {
    await using foreign = await FakeCluster.start(clock);
    await expect(machine([foreign.endpoint])(source(unanswered))).rejects.toMatchObject({
      code: 'disk-share-awaited',
      details: { code: 'joinclient-owner-unknown' },
    });
  });
});

describe('createProbeShare()', () => {
  const probe = () => machine().probe(source(unanswered));

  test('accepts an answer that the cluster CA has signed, and does not decrypt it', async () => {
    const own = { tpm: other, attestationKeySecret: new Secret<Uint8Array>(new Uint8Array(32)) };
    const enrolled = await readEnrolmentRequest(own, signal);
    cluster.behaviour.diskShare = (request, session) =>
      Promise.resolve(answered(request, session, { share: SHARE, enrolled }));
    await expect(probe()).resolves.toBeUndefined();
    expect(cluster.said).toEqual(['introduce', 'disk share']);
  });

  test('fails as a question for the share does', async () => {
    cluster.behaviour.diskShare = (request, session) =>
      Promise.resolve({ ...answered(request, session, { share: SHARE }), signature: new Uint8Array(64) });
    await expect(probe()).rejects.toMatchObject({ code: 'disk-share-invalid' });
    cluster.behaviour.diskShare = () =>
      Promise.reject(new CodedError(codes, 'join-share-not-member', 'giving'));
    await expect(probe()).rejects.toMatchObject({ code: 'disk-share-refused' });
  });
});
