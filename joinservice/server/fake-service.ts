import { afterAll, beforeAll, expect } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { JOIN_CONTEXT } from '../../internal/atls/index.ts';
import { createEvidenceSocketServer } from '../../internal/atls/evidencesocket/index.ts';
import { ChainVerifier, EMPTY_CHAIN } from '../../internal/audit/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { Namespace, put, type KeySpace } from '../../internal/etcd/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { DISK_SHARES_FILE } from '../../internal/keyset/index.ts';
import { fingerprintOfKey, verifyNodeCertificate, type MemberTrust } from '../../internal/pki/index.ts';
import {
  AUDIT_PREFIX,
  CLUSTER_PREFIX,
  OPERATORS_PREFIX,
  records,
  type AuditLogName,
  type AuditRecord,
  type JoinRecord,
} from '../../internal/records/index.ts';
import type { OperatorRole } from '../../internal/role/index.ts';
import {
  createClient,
  RpcChannel,
  tlsClientUpgrade,
  type Client,
  type TlsIdentity,
} from '../../internal/rpc/index.ts';
import {
  configurationWrite,
  createMemoryLogger,
  createSwtpmFactory,
  recordClusterSettings,
  temporaryDirectory,
  TestCluster,
  TestEtcd,
  untilServing,
  type TestMember,
  type TestOwner,
  type TestPeer,
  tpmHardware,
} from '../../internal/testing/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { OperatorApi } from '../curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../curatorproto/gen/curator_pb.js';
import { signerKeyFiles } from '../signer/fake-signer.ts';
import { serveSigner } from '../signer/index.ts';
import { TestMachine } from '../testing/index.ts';
import type { JoinserviceConfig } from './joinservice-config.ts';
import { serve } from './serve.ts';

const never = new AbortController().signal;
const clock = new SystemClock();

export const mutation = () => ({ mutation: { idempotencyKey: crypto.randomUUID() } });

/** Matches an error with this code in `expect`. */
export const coded = (code: string): unknown => expect.objectContaining({ code });

/** A channel to a curator. The client verifies the curator with `trust`. */
export function openCuratorChannel(endpoint: string, identity: TlsIdentity, trust: MemberTrust): RpcChannel {
  const accept = (certificate: Parameters<typeof verifyNodeCertificate>[0]) =>
    verifyNodeCertificate(certificate, trust);
  return new RpcChannel({ endpoint, upgrade: tlsClientUpgrade({ clock, identity, accept }) });
}

/** Writes the credentials of a curator on this etcd member, and further files; returns its configuration. */
export async function writeCuratorConfig(
  directory: string,
  { cluster, signer, etcd, member }: CuratorWorld,
  options: {
    readonly node: TestPeer;
    readonly etcdUser: 'curator' | 'root';
    readonly more?: Readonly<Record<string, string>>;
  },
): Promise<JoinserviceConfig> {
  const { node, etcdUser, more } = options;
  const client = await etcd.clientFiles(etcdUser);
  const contents = {
    'ca.crt': cluster.trust.caPem,
    'node.crt': node.tls.certPem,
    'node.key': node.tls.keyPem.reveal(),
    'etcd-ca.crt': client.caPem,
    'etcd.crt': client.certPem,
    'etcd.key': client.keyPem.reveal(),
  };
  const at = (name: keyof typeof contents): string => join(directory, name);
  for (const [name, text] of Object.entries({ ...contents, ...more }))
    await writeFile(join(directory, name), text, { mode: 0o600 });
  return {
    version: 1,
    clusterId: cluster.clusterId,
    nodeId: node.identity.kind === 'node' ? node.identity.nodeId : '',
    listen: { host: '127.0.0.1', port: 0 },
    clusterCaFile: at('ca.crt'),
    certFile: at('node.crt'),
    keyFile: at('node.key'),
    stores: [],
    ownerKeys: [Buffer.from(signer.pubKey).toString('base64')],
    etcd: {
      endpoints: [member.endpoint],
      ...{ caFile: at('etcd-ca.crt'), certFile: at('etcd.crt'), keyFile: at('etcd.key') },
      metricsUrl: member.metricsUrl,
    },
  };
}

/** One service for all tests of a file; it ends after the last test. */
export function serviceOfTheseTests(onStarted: (service: TestService) => void): void {
  const ending = new AsyncDisposableStack();
  beforeAll(async () => onStarted(ending.use(await TestService.start())), 60_000);
  afterAll(() => ending.disposeAsync(), 30_000);
}

/** Repeats the call until it succeeds. */
export async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  const deadline = AbortSignal.timeout(10_000);
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await clock.sleep(20, deadline);
  }
}

/**
 * A control plane with everything that joining needs: real etcd, join service, signer and evidence socket
 * with a software TPM, each set up as its own program would be. The owner calls its curator.
 */
export class TestService implements AsyncDisposable {
  readonly space: KeySpace;
  readonly cluster: TestCluster;
  /** The owner whose documents the programs accept. */
  readonly signer: FakeOwner;
  /** The address of the join service. */
  readonly endpoint: string;
  readonly curatorEndpoint: string;
  readonly admin: Client<typeof OperatorApi>;
  readonly curator: Client<typeof Curator>;
  readonly #closing: AsyncDisposableStack;

  private constructor(
    world: World,
    at: { readonly join: string; readonly curator: string },
    owner: RpcChannel,
  ) {
    this.space = world.space;
    this.cluster = world.cluster;
    this.signer = world.signer;
    this.#closing = world.closing;
    this.endpoint = at.join;
    this.curatorEndpoint = at.curator;
    this.admin = createClient(OperatorApi, owner);
    this.curator = createClient(Curator, owner);
  }

  static async start(): Promise<TestService> {
    const closing = new AsyncDisposableStack();
    const { path: directory } = closing.use(await temporaryDirectory());
    const etcd = closing.use(await TestEtcd.create());
    const member = await etcd.startMember('one');
    const root = await etcd.connect('root', member.endpoint);
    await untilServing(root);
    const space = new Namespace(root, CLUSTER_PREFIX);
    const signer = new FakeOwner({ clock });
    const cluster = await TestCluster.create(space, () => clock.nowMs(), signer);
    await recordClusterSettings(space, cluster, rules('approve'));
    const world: World = { directory, etcd, member, space, cluster, signer, closing };
    const at = await startPrograms(world);
    const owner = await cluster.addOperator('owner', 'owner');
    const channel = closing.use(openCuratorChannel(at.curator, owner.tls, cluster.trust));
    return new TestService(world, at, channel);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#closing.disposeAsync();
  }

  /** Replaces the configuration. */
  async configure(
    policy: string,
    inventory: readonly object[] = [],
    registers: Readonly<Record<string, unknown>> = {},
  ): Promise<void> {
    const write = configurationWrite(rules(policy, inventory, registers));
    if (write.kind !== 'put') throw new TypeError('a configuration is put');
    const { document } = records.configuration.decode(write.key, write.value);
    await this.signer.record(this.space, this.signer.policy(Buffer.from(document, 'base64')));
    await this.space.commit({ when: [], then: [write] }, { signal: never });
    await clock.sleep(100, never); // waits until the join service has read the new configuration from etcd
  }

  async write(key: string, value: Uint8Array): Promise<void> {
    await this.space.commit({ when: [], then: [put(key, value)] }, { signal: never });
  }

  /** A software TPM of its own for one test machine. */
  tpm(): Promise<Tpm> {
    return ownTpm(this.#closing);
  }

  /** A member on this TPM that was approved under this name. */
  async joined(tpm: Tpm, name: string): Promise<TestMachine> {
    const machine = new TestMachine(tpmHardware(tpm));
    using session = await machine.dial(this.endpoint);
    const admitted = session.admitted();
    await this.asked(machine.nodeId);
    await this.approve(machine.nodeId, name);
    await admitted;
    await session.ticket();
    return machine;
  }

  /** Resolves when the request of this machine is stored. */
  async asked(nodeId: string): Promise<void> {
    await until(() => this.space.get(records.join.key(nodeId), { signal: never }));
  }

  /**
   * The `operators` document after a change of one operator, signed by the owner. It leaves out the operator
   * `name`, or has `next` in its place.
   */
  async operators(
    name: string,
    next?: { readonly role: OperatorRole; readonly pubKeyDer: Uint8Array },
  ): Promise<Uint8Array[]> {
    const { entries } = await this.space.list(OPERATORS_PREFIX, { signal: never });
    const all = entries.map(({ key, value }) => records.operator.decode(key, value));
    const others = all.filter((each) => each.name !== name);
    const put = next && { name, role: next.role, fingerprint: fingerprintOfKey(next.pubKeyDer) };
    const operators = [...others, ...(put === undefined ? [] : [put])].map((each) => ({
      name: each.name,
      fingerprint: each.fingerprint,
      role: each.role,
    }));
    return [this.signer.sign('operators', { operators })];
  }

  async approve(join: string, name: string): Promise<void> {
    await this.admin.decideJoin(
      { join, decision: { case: 'approve', value: { name } }, ...mutation() },
      { signal: never },
    );
  }

  async nodeNames(): Promise<readonly string[]> {
    const { nodes } = await this.curator.listNodes({}, { signal: never });
    return nodes.map(({ name }) => name).sort();
  }

  /** All audit entries of both logs by time; fails if a chain is broken. */
  async audit(): Promise<readonly AuditRecord[]> {
    const verified = async (prefix: string, log: AuditLogName): Promise<readonly AuditRecord[]> => {
      const { entries } = await this.space.list(prefix, { signal: never });
      const verifier = new ChainVerifier(EMPTY_CHAIN, log);
      return entries.map(({ value }) => verifier.next(value));
    };
    const decisions = await verified(AUDIT_PREFIX, 'decisions');
    const requests = await verified('audit-requests/', 'requests');
    return [...decisions, ...requests].toSorted((a, b) => a.timeMs - b.timeMs);
  }

  async auditOf(subject: string): Promise<readonly Record<string, unknown>[]> {
    const entries = (await this.audit()).filter((entry) => entry.subject === subject);
    return entries.map(({ method, detail }) => ({ method, ...detail }));
  }

  /** Waits until the audit log contains a refusal with this code, of this machine or of any. */
  async untilAudited(code: string, subject?: string): Promise<void> {
    await until(async () =>
      (await this.audit()).find(
        (entry) =>
          entry.detail['verdict'] === 'refused' &&
          entry.detail['code'] === code &&
          (subject === undefined || entry.subject === subject),
      ),
    );
  }

  /** Changes the stored request of a machine directly in etcd. */
  async edit(nodeId: string, change: (record: JoinRecord) => JoinRecord): Promise<void> {
    const key = records.join.key(nodeId);
    const entry = await this.space.get(key, { signal: never });
    const record = records.join.decode(key, entry?.value ?? new Uint8Array());
    await this.write(key, records.join.encode(change(record)));
  }
}

/** The dependencies of a curator in these tests. */
interface CuratorWorld {
  readonly etcd: TestEtcd;
  readonly member: TestMember;
  readonly cluster: TestCluster;
  readonly signer: Pick<TestOwner, 'pubKey'>;
}

interface World extends CuratorWorld {
  readonly directory: string;
  readonly space: KeySpace;
  readonly signer: FakeOwner;
  readonly closing: AsyncDisposableStack;
}

function rules(
  policy: string,
  inventory: readonly object[] = [],
  registers: Readonly<Record<string, unknown>> = {},
) {
  const attestation = {
    firstContact: 'fingerprint',
    variants: ['tpm'],
    policy: {
      name: 'identity',
      profile: 'identity',
      machines: 'any-proved',
      registers,
      tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
    },
  };
  return { attestation, join: { policy, inventory } };
}

async function ownTpm(closing: AsyncDisposableStack): Promise<Tpm> {
  const factory = closing.use(await createSwtpmFactory());
  const chip = closing.use(await factory.start());
  return closing.use(chip.open());
}

/** The addresses of the two services. */
async function startPrograms(world: World): Promise<{ readonly join: string; readonly curator: string }> {
  const { directory, cluster, closing } = world;
  const log = createMemoryLogger().log;
  const files = new DiskFiles();
  const at = (name: string): string => join(directory, name);
  const { privateKey } = generateKeyPairSync('ed25519');
  const roles = ['ConsensusMember', 'KubernetesController'] as const;
  const node = await cluster.addNode('first', { roles: [...roles] }, privateKey);
  const more = { ...(await signerKeyFiles(cluster, clock.nowMs())), [DISK_SHARES_FILE]: '5e'.repeat(32) };
  const config = await writeCuratorConfig(directory, world, { node, etcdUser: 'root', more });
  const { caFile, certFile, keyFile } = config.etcd;
  closing.use(
    await createEvidenceSocketServer({
      path: at('evidence.sock'),
      context: JOIN_CONTEXT,
      issuers: [tpmHardware(await ownTpm(closing)).issuer],
      files,
      clock,
      log,
    }),
  );
  const stop = new AbortController();
  const ports = { files, streams: new DiskStreams(), clock, log };
  const joining = Promise.withResolvers<number>();
  const curating = Promise.withResolvers<number>();
  const serving = serve(
    {
      ...config,
      join: {
        listen: { host: '127.0.0.1', port: 0 },
        address: '127.0.0.1',
        evidence: { socket: at('evidence.sock'), variant: 'tpm' },
        signer: { socket: at('signer.sock'), etcdPipe: at('etcd.sock') },
      },
    },
    ports,
    { signal: stop.signal, onListening: curating.resolve, onJoinListening: joining.resolve },
  );
  serving.catch((error: unknown) => joining.reject(error));
  const signing = Promise.withResolvers<void>();
  const signer = serveSigner(
    {
      version: 1,
      listen: at('signer.sock'),
      keys: directory,
      memory: at('memory'),
      cluster: {
        ...{ clusterId: cluster.clusterId, epoch: 1 },
        ownerKeys: [Buffer.from(world.signer.pubKey).toString('base64')],
        own: { nodeId: config.nodeId, name: 'first', address: '127.0.0.1' },
        networks: { serviceSubnet: '10.96.0.0/12', podSubnet: '10.244.0.0/16', apiServerSans: [] },
      },
      etcd: { endpoint: `unix:${at('etcd.sock')}`, caFile, certFile, keyFile },
    },
    ports,
    { signal: stop.signal, onListening: () => signing.resolve() },
  );
  closing.defer(async () => {
    stop.abort(new Error('the test is over'));
    await Promise.allSettled([serving, signer]);
  });
  const [port] = await Promise.all([joining.promise, signing.promise]);
  return { join: `127.0.0.1:${port}`, curator: `127.0.0.1:${await curating.promise}` };
}
