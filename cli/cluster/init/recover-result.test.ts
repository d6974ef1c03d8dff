import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { createServer } from 'node:net';
import { InitResultSchema } from '../../../initproto/gen/init_pb.js';
import { SystemClock } from '../../../internal/clock/index.ts';
import { generateEd25519Key, ownershipStatement, signEd25519 } from '../../../internal/crypto/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../../internal/rpc/index.ts';
import { signDocument } from '../../../internal/ownerdocument/index.ts';
import { MemoryFiles } from '../../../internal/testing/host/memory-files.ts';
import { createMemoryLogger } from '../../../internal/testing/memory-logger.ts';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { RecordingHost } from '../../host/fake-host.ts';
import type { OwnerKey } from '../../workspace/index.ts';
import { saveWorkspaceCa } from '../curator/known-ca.ts';
import { recoverResult } from './recover-result.ts';

const clusterId = 'a'.repeat(32);
const nowMs = (): number => Date.now();
const createOwner = (): OwnerKey => ({ keyPem: generateEd25519Key(), pubKeyBase64: '' });
const bytes = (text: string): Uint8Array => Buffer.from(text);
const open: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function createSigner(): Promise<KeyCertificateSigner> {
  const keyPem = generateKeyPem();
  return new KeyCertificateSigner({
    keyPem,
    caPem: await createCaCertPem({ commonName: 'CA', keyPem, nowMs: nowMs() }),
    nowMs,
  });
}

let owner: OwnerKey;
let adminKeyPem: ReturnType<typeof generateKeyPem>;
let ca: KeyCertificateSigner;
beforeEach(async () => {
  owner = createOwner();
  adminKeyPem = generateKeyPem();
  ca = await createSigner();
});

/** Starts a curator that serves init results; result, signature and certificate can be replaced. Returns its endpoint. */
async function startCurator(
  over: {
    readonly signedBy?: OwnerKey | 'none';
    readonly shownBy?: KeyCertificateSigner;
    readonly id?: string;
    readonly documents?: readonly Uint8Array[];
  } = {},
): Promise<string> {
  const { signedBy = owner, shownBy = ca, id = clusterId, documents = [] } = over;
  const kubernetes = await createSigner();
  const nodeKey = generateKeyPem();
  const leaf = nodeLeaf({
    clusterId: id,
    pubKeyDer: pubKeyDerOf(nodeKey),
    addresses: ['127.0.0.1'],
    isControlPlane: true,
  });
  const admin = {
    commonName: 'owner',
    pubKeyDer: pubKeyDerOf(adminKeyPem),
    usages: ['client'],
    names: [],
    validDays: 1,
  } as const;
  const result = create(InitResultSchema, {
    ...{ clusterId: id, nodeId: 'node-1', nodeName: 'n1', epoch: 1n },
    clusterCaPem: bytes(ca.caPem),
    ownerCertificatePem: bytes(
      await ca.issue(operatorLeaf({ clusterId: id, pubKeyDer: pubKeyDerOf(owner.keyPem), name: 'owner' })),
    ),
    kubernetesCaPem: bytes(kubernetes.caPem),
    kubernetesAdminCertificatePem: bytes(await kubernetes.issue(admin)),
    apiEndpoints: ['127.0.0.1:6443'],
    curatorEndpoints: ['127.0.0.1:9091'],
  });
  const statement = ownershipStatement({ clusterId: id, clusterCaPem: ca.caPem, epoch: 1n });
  const ownershipSignature = signedBy === 'none' ? new Uint8Array() : signEd25519(signedBy.keyPem, statement);
  const server = new RpcServer<string>({
    clock: new SystemClock(),
    upgrade: tlsServerUpgrade({
      clock: new SystemClock(),
      identity: { certPem: await shownBy.issue(leaf), keyPem: nodeKey },
      accept: (certificate) => certificate.subject,
    }),
    services: [
      implement(Curator, {
        getInitResult: async () => ({
          initId: 'one',
          result: toBinary(InitResultSchema, result),
          ownershipSignature,
        }),
      } as never),
      implement(OperatorApi, {
        getClusterCa: async () => ({ clusterCaPem: shownBy.caPem, ownerDocuments: documents }),
      } as never),
    ],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  const port = await server.listen('127.0.0.1', 0);
  open.push(() => server[Symbol.asyncDispose]());
  return `127.0.0.1:${port}`;
}

/** Accepts connections and never responds. */
async function startDeaf(): Promise<{ readonly port: number }> {
  const deaf = createServer((socket) => open.push(() => void socket.destroy()));
  await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve));
  open.push(() => void deaf.close());
  return deaf.address() as { port: number };
}

/** Makes the ten-second limit for all curators expire before the limit of one handshake. */
class HastyClock extends SystemClock {
  override sleep(ms: number, signal: AbortSignal): Promise<void> {
    return super.sleep(ms === 10_000 ? 1_000 : ms, signal);
  }
}

const caFile = { path: '/cluster-ca.json', of: 'one' };

async function recover(endpoints: readonly string[], clock = new SystemClock(), files = new MemoryFiles()) {
  const host = new RecordingHost();
  const context = { host, ports: { clock, files }, signal: new AbortController().signal };
  const asked = { endpoints, initId: 'one', clusterId, ownerKey: owner, adminKeyPem, caFile };
  const recovered = await recoverResult(context as unknown as Parameters<typeof recoverResult>[0], asked);
  return { found: recovered?.result, ca: recovered?.ca, codes: host.codes };
}

/** The signature of an owner over the generation in which one CA replaces another. */
function rotation(
  from: KeyCertificateSigner,
  to: KeyCertificateSigner,
  { generation = 2, by = owner }: { readonly generation?: number; readonly by?: OwnerKey } = {},
): Uint8Array {
  const named = ({ caPem }: KeyCertificateSigner) => ({
    'cluster-ca': createHash('sha256').update(`${caPem.trim()}\n`).digest('hex'),
  });
  const body = { generation, previous: named(from), next: named(to) };
  const head = { kind: 'keys' as const, clusterId, epoch: 1, serial: generation - 1, issuedMs: 1 };
  return signDocument({ ...head, endsMs: Number.MAX_SAFE_INTEGER, body }, by.keyPem);
}

describe('recoverResult()', () => {
  test('returns the result that the owner signed, from the first node that responds', async () => {
    const { found, codes } = await recover(['127.0.0.1:1', await startCurator()]);
    expect(found).toMatchObject({ clusterId, nodeName: 'n1', clusterCaPem: ca.caPem });
    expect(codes).toEqual([]);
  });

  test.each([
    { name: 'signed by another owner', over: async () => ({ signedBy: createOwner() }) },
    {
      name: 'from a sender that is not a node of the cluster',
      over: async () => ({ shownBy: await createSigner() }),
    },
    { name: 'of another cluster', over: async () => ({ id: 'b'.repeat(32) }) },
  ])('refuses a result $name, warns, and calls the next curator', async ({ over }) => {
    const forged = await startCurator(await over());
    expect(await recover([forged])).toEqual({
      ...{ found: undefined, ca: undefined },
      codes: ['init-recovery-refused'],
    });
    expect((await recover([forged, await startCurator()])).found).toMatchObject({ clusterId });
  });

  describe('after the CA of the cluster was replaced', () => {
    test('returns the result and the new CA, from a curator whose certificate the new, signed CA has issued', async () => {
      const next = await createSigner();
      const endpoint = await startCurator({ shownBy: next, documents: [rotation(ca, next)] });
      const { found, ca: followed, codes } = await recover([endpoint]);
      expect(codes).toEqual([]);
      expect(found).toMatchObject({ clusterId, clusterCaPem: ca.caPem });
      expect(followed).toMatchObject({ trustedPem: `${next.caPem.trim()}\n`, generation: 2 });
    });

    test('returns the generation in which the CA of a restored cluster was created', async () => {
      const before = await createSigner();
      const endpoint = await startCurator({ documents: [rotation(before, ca, { generation: 4 })] });
      expect((await recover([endpoint])).ca).toMatchObject({ generation: 4 });
    });

    test('refuses a CA that another key has signed', async () => {
      const next = await createSigner();
      const documents = [rotation(ca, next, { by: createOwner() })];
      expect(await recover([await startCurator({ shownBy: next, documents })])).toEqual({
        ...{ found: undefined, ca: undefined },
        codes: ['init-recovery-refused'],
      });
    });

    test('refuses the replaced CA if the workspace has adopted a newer one', async () => {
      const next = await createSigner();
      const files = new MemoryFiles();
      await saveWorkspaceCa(files, caFile, { trustedPem: next.caPem, generation: 2, floors: {} });
      const refused = { found: undefined, ca: undefined, codes: ['init-recovery-refused'] };
      expect(await recover([await startCurator()], new SystemClock(), files)).toEqual(refused);
      const again = await startCurator({ documents: [rotation(ca, next)] });
      expect(await recover([again], new SystemClock(), files)).toEqual(refused);
      const current = await startCurator({ shownBy: next, documents: [rotation(ca, next)] });
      expect((await recover([current], new SystemClock(), files)).found).toMatchObject({ clusterId });
    });
  });

  test('ignores a result that was not acknowledged', async () => {
    expect(await recover([await startCurator({ signedBy: 'none' })])).toEqual({
      ...{ found: undefined, ca: undefined },
      codes: [],
    });
  });

  test('calls at most sixteen curators', async () => {
    const unreachable = Array.from({ length: 16 }, () => '127.0.0.1:1');
    expect((await recover([...unreachable, await startCurator()])).found).toBeUndefined();
  });

  test('uses another node when the first one does not respond', async () => {
    const { port } = await startDeaf();
    expect((await recover([`127.0.0.1:${port}`, await startCurator()])).found).toMatchObject({ clusterId });
  });

  test('gives up after ten seconds for all curators together', async () => {
    const { port } = await startDeaf();
    expect(await recover([`127.0.0.1:${port}`], new HastyClock())).toEqual({
      ...{ found: undefined, ca: undefined },
      codes: ['init-not-recovered'],
    });
  });
});
