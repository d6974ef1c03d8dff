import { beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { encodeManifest } from '../../internal/bundle/index.ts';
import type { CheckResult } from '../../internal/preflight/index.ts';
import { ownershipStatement } from '../../internal/crypto/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { AcknowledgeRequestSchema, PreflightRequestSchema } from '../../initproto/gen/init_pb.js';
import { NodeLock } from '../nodelock/index.ts';
import { InitJob, type InitOutcome, type InitRecord } from './init-job.ts';
import {
  createInitHandlers,
  type InitServicePorts,
  type OwnerPeer,
  type PreflightQuery,
} from './init-service.ts';

const never = new AbortController().signal;
const request = {
  initId: 'one',
  spec: { clusterId: 'a'.repeat(32), configuration: '', serviceSubnet: '198.19.128.0/20' },
} as InitRecord;
const [clusterCaPem, anotherCaPem] = await Promise.all([createCaPem(), createCaPem()]);
const outcome = { clusterId: request.spec.clusterId, clusterCaPem, epoch: 1 } as InitOutcome;
const statement = ownershipStatement({ ...outcome, epoch: 1n });

let files: MemoryFiles;
let job: InitJob;
let handlers: ReturnType<typeof createInitHandlers>;
const owner = generateKeyPairSync('ed25519');
beforeEach(async () => {
  files = new MemoryFiles();
  await files.makeDirectory('/enrolment');
  const lock = new NodeLock({ files, path: '/enrolment/lock.json', nowMs: () => 0 });
  const phases = {
    after: () => [],
    run: <T>(_: string, work: (progress: { report(): void; reportUnchanged(): void }) => Promise<T>) =>
      work({ report: () => undefined, reportUnchanged: () => undefined }),
  };
  const ownAddress = () => '198.18.0.11';
  job = new InitJob({ files, lock, phases, preflight: () => Promise.resolve(), ownAddress }, '/init');
  await job.accept(request, never);
  handlers = createInitHandlers({ job, evidence: {} } as InitServicePorts);
});

function acknowledge(initId: string, signature: Uint8Array): Promise<unknown> {
  const peer: OwnerPeer = { kind: 'owner', publicKey: owner.publicKey, session: new Uint8Array() };
  const call = { peer, signal: never } as Parameters<typeof handlers.acknowledge>[1];
  const message = create(AcknowledgeRequestSchema, { initId, ownershipSignature: signature });
  return Promise.resolve(handlers.acknowledge(message, call));
}

function createCaPem(): Promise<string> {
  return createCaCertPem({ commonName: 'cluster', keyPem: generateKeyPem(), nowMs: Date.now() });
}

const signedBy = (key: KeyObject, text = statement): Uint8Array => sign(undefined, text, key);

describe('acknowledge()', () => {
  const otherKey = generateKeyPairSync('ed25519').privateKey;
  const another = ownershipStatement({ ...outcome, clusterCaPem: anotherCaPem, epoch: 1n });
  test.each([
    { name: 'by a key that is not the caller’s', signature: () => signedBy(otherKey) },
    { name: 'over another cluster', signature: () => signedBy(owner.privateKey, another) },
    { name: 'that is malformed', signature: () => new Uint8Array() },
  ])('refuses a signature $name and leaves no file behind', async ({ signature }) => {
    await job.finish(outcome);
    const before = await files.list('/init');
    await expect(acknowledge('one', signature())).rejects.toMatchObject({
      code: 'initserver-signature-invalid',
    });
    expect(await files.list('/init')).toEqual(before);
    expect(job.acknowledged.peek().set).toBe(false);
  });

  test.each([
    { name: 'an acknowledgement before the init has a result', initId: 'one', isFinished: false },
    { name: 'an acknowledgement of another init', initId: 'two', isFinished: true },
  ])('refuses $name', async ({ initId, isFinished }) => {
    if (isFinished) await job.finish(outcome);
    await expect(acknowledge(initId, signedBy(owner.privateKey))).rejects.toMatchObject({
      code: 'initserver-no-job',
    });
    expect(job.acknowledged.peek().set).toBe(false);
  });

  test('accepts the owner’s signature over this cluster and saves the signature', async () => {
    await job.finish(outcome);
    const signature = signedBy(owner.privateKey);
    await acknowledge('one', signature);
    const kept = job.acknowledged.peek();
    expect(kept.set && kept.value.ownershipSignatureBase64).toBe(Buffer.from(signature).toString('base64'));
  });
});

describe('preflight', () => {
  const BLOB = { version: '1', source: 'here', kind: 'binary', sizeBytes: 10 } as const;
  const MANIFEST = encodeManifest({
    version: 1,
    name: 'kubernetes-v1.35.4-linux-amd64',
    kubernetesVersion: 'v1.35.4',
    architecture: 'amd64',
    components: [
      { ...BLOB, name: 'kubelet', sha256: 'a'.repeat(64), scope: 'node' },
      { ...BLOB, name: 'etcd', sha256: 'b'.repeat(64), scope: 'controlplane' },
      { ...BLOB, name: 'helm', sha256: 'c'.repeat(64), scope: 'workstation' },
    ],
  });
  const check: CheckResult = {
    ...{ code: 'preflight-sysctl', subject: 'x', status: 'failed', figure: '0', threshold: '1' },
    ...{ cause: 'x is 0', fix: 'set it', repair: { kind: 'set-sysctl', key: 'x', value: '1' } },
  };

  function ask(accepted: boolean) {
    const asked: PreflightQuery[] = [];
    const ports = {
      job: { accepted: { peek: () => (accepted ? { set: true } : { set: false }) } },
      evidence: {},
      blobs: {
        state: async (hash: string) => ({ complete: hash.startsWith('a'), partialBytes: 0 }),
      },
      reportChecks: async (each: PreflightQuery) => {
        asked.push(each);
        return [check];
      },
    } as unknown as InitServicePorts;
    const snapshots = ['ad', 'd0'].map((start) => ({ sha256: start.padEnd(64, '0'), sizeBytes: 300n }));
    const message = create(PreflightRequestSchema, {
      ...{ nodeName: 'n1', bundleManifest: MANIFEST, nowMs: 7n, snapshots },
    });
    const call = { signal: never } as Parameters<ReturnType<typeof createInitHandlers>['preflight']>[1];
    return { asked, answer: Promise.resolve(createInitHandlers(ports).preflight(message, call)) };
  }

  test('reports each check, and counts the components and snapshots that the machine does not have', async () => {
    const { asked, answer } = ask(false);
    const { repair: _repair, ...told } = check;
    await expect(answer).resolves.toEqual({ checks: [told] });
    expect(asked).toEqual([
      {
        ...{ nodeName: 'n1', bundleManifest: Buffer.from(MANIFEST).toString(), callerNowMs: 7 },
        ...{ missingBytes: 310, databaseBytes: 600 },
      },
    ]);
  });

  test('is refused after an init was accepted', async () => {
    const { asked, answer } = ask(true);
    await expect(answer).rejects.toMatchObject({ code: 'initserver-in-progress' });
    expect(asked).toEqual([]);
  });
});
