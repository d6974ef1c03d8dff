import type { MessageInitShape } from '@bufbuild/protobuf';
import type { X509Certificate } from 'node:crypto';
import { signDocument } from '../../../internal/ownerdocument/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { certificateSha256 } from '../../../internal/crypto/index.ts';
import {
  createCaCertPem,
  fingerprintOfKey,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  operatorLeaf,
  pubKeyDerOf,
  spkiDerOf,
  verifyMemberCertificate,
  verifyCertificateRequest,
  type MemberIdentity,
} from '../../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade, type Handlers } from '../../../internal/rpc/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { createMemoryLogger, FakeCommands, MemoryFiles } from '../../../internal/testing/index.ts';
import {
  OperatorApi,
  type RemovedMachineSchema,
} from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { NodeStreams } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { generateWorkspace, openWorkspace } from '../index.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { readOwnerKey } from '../../workspace/index.ts';
import { noPassphrases, plainSecrets } from '../../workspace/fake-passphrases.ts';

const CLUSTER_ID = '00112233445566778899aabbccddeeff';

/** The real clock plus an offset that tests can change. */
export class HarnessClock extends SystemClock {
  aheadMs = 0;

  override nowMs(): number {
    return super.nowMs() + this.aheadMs;
  }
}

export type FakeCuratorCalls = Partial<Handlers<typeof Curator, MemberIdentity>>;
export type FakeAdmissionCalls = Partial<Handlers<typeof OperatorApi, MemberIdentity>>;
export type FakeStreamCalls = Partial<Handlers<typeof NodeStreams, MemberIdentity>>;

/** Responses of the fake curator that differ from its defaults. */
interface FakeCalls {
  readonly curator: FakeCuratorCalls;
  readonly admission: FakeAdmissionCalls;
  readonly streams: FakeStreamCalls;
  /** The endpoint of the curator. */
  readonly address: string;
  /** The records of removed machines. */
  readonly removed: () => MessageInitShape<typeof RemovedMachineSchema>[];
}

/** A context of a workstation whose disk is in memory. */
export function contextOf(
  files: MemoryFiles,
  workspace: string,
  identity?: string,
  clock: SystemClock = new SystemClock(),
) {
  return {
    host: new RecordingHost(),
    ports: { files, commands: new FakeCommands(), clock },
    paths: { cache: '/cache', data: '/data', config: '/config', workspace, identity },
    passphrases: noPassphrases,
    env: {},
    signal: new AbortController().signal,
  } satisfies CommandContext;
}

/** A cluster that signs every certificate request and records the callers. */
async function createCluster(files: MemoryFiles, calls: FakeCalls) {
  const clock = new HarnessClock();
  const signer = await createCa(clock);
  const { caPem } = signer;
  const asked: MemberIdentity[] = [];
  const documents: Uint8Array[] = [];
  const { server, endpoint, replaceCa } = await serve(
    signer,
    { asked, clock, documents: () => documents },
    calls,
  );
  const owner = contextOf(files, '/owner', undefined, clock);
  await generateWorkspace(owner, { name: 'prod' });
  await using workspace = await openWorkspace(owner, 'test');
  const { keyPem } = await readOwnerKey(plainSecrets(files), workspace.layout);
  const leaf = operatorLeaf({ clusterId: CLUSTER_ID, pubKeyDer: pubKeyDerOf(keyPem), name: 'owner' });
  documents.push(operatorsSignedBy(keyPem), settingsSignedBy(keyPem));
  const result = {
    clusterId: CLUSTER_ID,
    nodeId: 'node-1',
    nodeName: 'n1',
    clusterCaPem: caPem,
    ownerCertPem: await signer.issue(leaf),
    kubernetesCaPem: caPem,
    adminCertPem: '',
    apiEndpoints: [],
    curatorEndpoints: [endpoint],
    epoch: '1',
  };
  await workspace.state.update((state) => ({
    ...state,
    init: {
      id: '6b0f3f5e-7d0c-4b0a-9d0e-1f2a3b4c5d6e',
      endpoint: '127.0.0.1:9000',
      fingerprint: 'sha256:00',
      requestHash: '00',
      startedMs: 1,
      stage: 'acknowledged',
      result,
    },
  }));
  const made = { clusterId: CLUSTER_ID, caSha256: certificateSha256(caPem) };
  const dispose = () => server[Symbol.asyncDispose]();
  return {
    owner,
    ownerKey: keyPem,
    asked,
    clock,
    endpoint,
    replaceCa,
    ...made,
    [Symbol.asyncDispose]: dispose,
  };
}

/** A CA of the cluster; all of them have the same name. */
async function createCa(clock: HarnessClock): Promise<KeyCertificateSigner> {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'cluster', keyPem, nowMs: clock.nowMs() });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => clock.nowMs() });
}

/** The TLS of a curator whose certificate a CA has issued, and which accepts certificates of that CA only. */
async function upgradeOf(signer: KeyCertificateSigner, clock: HarnessClock, address: string) {
  const keyPem = generateKeyPem();
  const certPem = await signer.issue(
    nodeLeaf({
      clusterId: CLUSTER_ID,
      pubKeyDer: pubKeyDerOf(keyPem),
      addresses: [address],
      validDays: 3650,
      isControlPlane: true,
    }),
  );
  const trust = { caPem: signer.caPem, clusterId: CLUSTER_ID, nowMs: () => clock.nowMs() };
  return tlsServerUpgrade({
    clock: new SystemClock(),
    identity: { certPem, keyPem },
    accept: (shown) => bareFrom(shown) ?? verifyMemberCertificate(shown, trust),
  });
}

async function serve(
  first: KeyCertificateSigner,
  {
    asked,
    clock,
    documents,
  }: {
    readonly asked: MemberIdentity[];
    readonly clock: HarnessClock;
    readonly documents: () => Uint8Array[];
  },
  calls: FakeCalls,
) {
  let signer = first;
  let upgrade = await upgradeOf(signer, clock, calls.address);
  let replaced: { readonly clusterCaPem: string; readonly ownerDocuments: Uint8Array[] } | undefined;
  let endpoint = '';
  const unused = () => Promise.reject(new Error('not part of this test'));
  const admission = {
    ...Object.fromEntries(OperatorApi.methods.map(({ localName }) => [localName, unused])),
    listOperators: async (_: unknown, { peer }: Asked) => {
      asked.push(peer);
      return { operators: [] };
    },
    getOwnership: async () => ({}),
    getClusterCa: async () => replaced ?? { clusterCaPem: first.caPem, ownerDocuments: [] },
    listDocuments: async () => ({ documents: documents(), removed: calls.removed(), epoch: 1n }),
    renewOperator: async ({ certificateRequest }: { certificateRequest: Uint8Array }, { peer }: Asked) => {
      asked.push(peer);
      const pubKeyDer = await verifyCertificateRequest(certificateRequest);
      return {
        certificatePem: await signer.issue(
          operatorLeaf({ clusterId: CLUSTER_ID, pubKeyDer, name: 'renewed' }),
        ),
      };
    },
    putOperator: async (request: { name: string; role: string; certificateRequest: Uint8Array }) => {
      const pubKeyDer = await verifyCertificateRequest(request.certificateRequest);
      const leaf = operatorLeaf({ clusterId: CLUSTER_ID, pubKeyDer, name: request.name });
      return {
        operator: { name: request.name, role: request.role, fingerprint: fingerprintOfKey(pubKeyDer) },
        certificatePem: await signer.issue(leaf),
        clusterCaPem: signer.caPem,
      };
    },
    ...calls.admission,
  };
  const curator = {
    ...Object.fromEntries(Curator.methods.map(({ localName }) => [localName, unused])),
    getClusterInfo: async () => ({ directory: [{ curatorEndpoint: endpoint }] }),
    ...calls.curator,
  };
  const streams = {
    ...Object.fromEntries(NodeStreams.methods.map(({ localName }) => [localName, unused])),
    ...calls.streams,
  };
  const server = new RpcServer<MemberIdentity>({
    clock: new SystemClock(),
    upgrade: (tcp, stop) => upgrade(tcp, stop),
    services: [
      implement(OperatorApi, admission as never),
      implement(Curator, curator as never),
      implement(NodeStreams, streams as never),
    ],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  endpoint = `${calls.address}:${await server.listen(calls.address, 0)}`;
  /**
   * Replaces the CA. `documentsFor` returns the owner documents that the curator then serves. The curator gets a
   * certificate of the CA `serves`, by default of the new CA.
   */
  const replaceCa = async (
    documentsFor: (previousPem: string, nextPem: string) => Uint8Array[],
    serves?: KeyCertificateSigner,
  ): Promise<{ readonly previous: KeyCertificateSigner; readonly next: KeyCertificateSigner }> => {
    const [previous, next] = [signer, await createCa(clock)];
    signer = serves ?? next;
    upgrade = await upgradeOf(signer, clock, calls.address);
    const clusterCaPem = `${previous.caPem}\n${next.caPem}`;
    replaced = { clusterCaPem, ownerDocuments: documentsFor(previous.caPem, next.caPem) };
    return { previous, next };
  };
  return { server, endpoint, replaceCa };
}

/** Signed settings, as every init of this version makes them. */
function settingsSignedBy(keyPem: Secret<string>): Uint8Array {
  const head = { clusterId: CLUSTER_ID, epoch: 1, serial: 1, issuedMs: 1, endsMs: Number.MAX_SAFE_INTEGER };
  return signDocument({ ...head, kind: 'settings', body: { settingsSha256: '0'.repeat(64) } }, keyPem);
}

/** The signed list of operators after the init: only the owner. */
function operatorsSignedBy(keyPem: Secret<string>): Uint8Array {
  const fingerprint = fingerprintOfKey(pubKeyDerOf(keyPem));
  const body = { operators: [{ name: 'owner', fingerprint, role: 'owner' as const }] };
  const head = { clusterId: CLUSTER_ID, epoch: 1, serial: 1, issuedMs: 1, endsMs: Number.MAX_SAFE_INTEGER };
  return signDocument({ ...head, kind: 'operators', body }, keyPem);
}

interface Asked {
  readonly peer: MemberIdentity;
}

function bareFrom(shown: X509Certificate): MemberIdentity | undefined {
  if (!shown.checkIssued(shown)) return undefined;
  const fingerprint = fingerprintOfKey(spkiDerOf(shown.publicKey));
  return { kind: 'operator', clusterId: CLUSTER_ID, name: 'bare', fingerprint, isKeyOnly: true };
}

/** A workstation with the workspace of an owner in /owner, and a curator that responds. Dispose it after the test. */
export async function createCuratorHarness(
  curator: FakeCuratorCalls = {},
  admission: FakeAdmissionCalls = {},
  streams: FakeStreamCalls = {},
  { address = '127.0.0.1', removed = () => [] }: Partial<Pick<FakeCalls, 'address' | 'removed'>> = {},
) {
  const files = new MemoryFiles();
  for (const directory of ['/owner', '/ann', '/proc/self', '/proc/sys/kernel/random', '/etc'])
    await files.makeDirectory(directory);
  return { files, ...(await createCluster(files, { curator, admission, streams, address, removed })) };
}
