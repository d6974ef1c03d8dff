import { spawn, type ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { JOIN_CONTEXT } from '../../../internal/atls/index.ts';
import { createEvidenceSocketServer } from '../../../internal/atls/evidencesocket/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { Namespace } from '../../../internal/etcd/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import { createCaCertPem, generateKeyPem } from '../../../internal/pki/index.ts';
import { CLUSTER_PREFIX, NODES_PREFIX, records } from '../../../internal/records/index.ts';
import type { Tpm } from '../../../internal/tpm/index.ts';
import {
  createMemoryLogger,
  joinConfigurations,
  recordClusterSettings,
  findFreePort,
  TestCluster,
  TestEtcd,
  TestOwner,
  untilServing,
  keyHardware,
  tpmHardware,
} from '../../../internal/testing/index.ts';

const ROOT = join(import.meta.dirname, '../../..');
const never = new AbortController().signal;
const clock = new SystemClock();
const START_MS = 30_000;

/** One control plane as far as joining needs it: a real etcd, and the built join service and signer as processes. */
export interface JoinCluster extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly joinservicePid: number;
  readonly signerPid: number;
  /** The name of each node record; a name occurs twice if two nodes have it. */
  names(): Promise<readonly string[]>;
}

export interface JoinClusterOptions {
  readonly inventory: readonly { readonly identity: string; readonly name: string }[];
  /** The TPM of the control plane. Without it, the control plane has only a key. */
  readonly tpm?: Tpm;
}

export async function startJoinCluster({ inventory, tpm }: JoinClusterOptions): Promise<JoinCluster> {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-bench-join-'));
  const at = (name: string): string => join(directory, name);
  const etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  const space = new Namespace(root, CLUSTER_PREFIX);
  const cluster = await TestCluster.create(space, () => clock.nowMs());
  await recordClusterSettings(space, cluster, {
    attestation: attestationBy(tpm),
    join: { policy: 'inventory', inventory },
    bundleManifest: JSON.stringify({ size: 'x'.repeat(8_000) }),
  });
  const { privateKey } = generateKeyPairSync('ed25519');
  const roles = ['ConsensusMember', 'KubernetesController'] as const;
  const node = await cluster.addNode('first', { roles: [...roles] }, privateKey);
  await writeFiles(at, { cluster, node, client: await etcd.clientFiles('root') });
  const evidence = await createEvidenceSocketServer({
    path: at('evidence.sock'),
    context: JOIN_CONTEXT,
    issuers: [(tpm === undefined ? keyHardware(privateKey) : tpmHardware(tpm)).issuer],
    files: new DiskFiles(),
    clock,
    log: createMemoryLogger().log,
  });
  const port = await findFreePort();
  const { joinservice: service, signer: signing } = await joinConfigurations({
    ...{ at, clusterId: cluster.clusterId, joinPort: port },
    nodeId: node.identity.kind === 'node' ? node.identity.nodeId : '',
    ownerKey: Buffer.from(new TestOwner({ clock, clusterId: cluster.clusterId }).pubKey).toString('base64'),
    etcdAt: { endpoint: member.endpoint, metricsUrl: member.metricsUrl },
  });
  const variant = tpm === undefined ? 'machine-key' : 'tpm';
  const configurations = {
    joinservice: {
      ...service,
      join: { ...service.join, evidence: { ...service.join.evidence, variant } },
    },
    signer: { ...signing, listen: service.join.signer.socket },
  };
  for (const [name, configuration] of Object.entries(configurations))
    await writeFile(at(`${name}.json`), JSON.stringify(configuration));
  const joinservice = start('joinservice', at('joinservice.json'));
  const signer = start('signer', at('signer.json'));
  await untilListening(port);
  await untilThere(at('signer.sock'));
  return {
    host: '127.0.0.1',
    port,
    joinservicePid: joinservice.pid ?? 0,
    signerPid: signer.pid ?? 0,
    names: async () => {
      const { entries } = await space.list(NODES_PREFIX, { signal: never });
      return entries
        .filter(({ key }) => key.endsWith('/record'))
        .map(({ key, value }) => records.node.decode(key, value).name);
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([end(joinservice), end(signer)]);
      await evidence[Symbol.asyncDispose]();
      await etcd[Symbol.asyncDispose]();
      await rm(directory, { recursive: true });
    },
  };
}

/** CPU time of a process since its start, user and system, in seconds. */
export async function cpuSecondsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function attestationBy(tpm: Tpm | undefined): object {
  if (tpm === undefined) return { variants: ['machine-key'], firstContact: 'fingerprint' };
  const policy = {
    name: 'identity',
    profile: 'identity',
    machines: 'any-proved',
    registers: {},
    tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
  };
  return { variants: ['tpm'], firstContact: 'fingerprint', policy };
}

async function writeFiles(
  at: (name: string) => string,
  from: {
    readonly cluster: TestCluster;
    readonly node: Awaited<ReturnType<TestCluster['addNode']>>;
    readonly client: Awaited<ReturnType<TestEtcd['clientFiles']>>;
  },
): Promise<void> {
  const { cluster, node, client } = from;
  const keyPem = generateKeyPem();
  const contents = {
    'node.crt': node.tls.certPem,
    'node.key': node.tls.keyPem.reveal(),
    'etcd-ca.crt': client.caPem,
    ...Object.fromEntries(
      ['joinservice', 'signer'].flatMap((name) => [
        [`etcd-${name}.crt`, client.certPem],
        [`etcd-${name}.key`, client.keyPem.reveal()],
      ]),
    ),
    'cluster-ca.crt': cluster.authority.caPem,
    'cluster-ca.key': cluster.authority.keyPem.reveal(),
    'kubernetes-ca.crt': await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: clock.nowMs() }),
    'kubernetes-ca.key': keyPem.reveal(),
  };
  for (const [name, text] of Object.entries(contents)) await writeFile(at(name), text, { mode: 0o600 });
}

function start(program: string, config: string): ChildProcess {
  return spawn(execPath, [join(ROOT, 'dist', `${program}.mjs`), config], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

async function untilListening(port: number): Promise<void> {
  await until(async () => {
    const socket = connect({ host: '127.0.0.1', port });
    try {
      await once(socket, 'connect');
    } finally {
      socket.destroy();
    }
  });
}

async function untilThere(path: string): Promise<void> {
  await until(() => access(path));
}

async function until(attempt: () => Promise<unknown>): Promise<void> {
  const deadline = AbortSignal.timeout(START_MS);
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (deadline.aborted) throw error;
      await clock.sleep(50, never);
    }
  }
}
