import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { SystemClock } from '../../../internal/clock/index.ts';
import { Namespace, put } from '../../../internal/etcd/index.ts';
import { verifyNodeCertificate } from '../../../internal/pki/index.ts';
import { CLUSTER_PREFIX, CONFIGURATION_KEY, records } from '../../../internal/records/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade, type Client } from '../../../internal/rpc/index.ts';
import {
  findFreePort,
  TestCluster,
  TestEtcd,
  TestOwner,
  untilServing,
  type TestPeer,
} from '../../../internal/testing/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { SimulatedNode } from './simulated-node.ts';

const ROOT = join(import.meta.dirname, '../../..');
const never = new AbortController().signal;
const clock = new SystemClock();
const START_MS = 30_000;
/** Nodes that are added in parallel. Each needs two etcd writes, and etcd syncs parallel writes together. */
const ADDED_AT_ONCE = 16;
/** The Node flags in the curator's systemd unit. */
const NODE_FLAGS = [
  '--optimize-for-size',
  '--no-maglev',
  '--max-semi-space-size=1',
  '--heap-growing-percent=40',
];

/**
 * A curator in its own process with a real etcd. One client calls it as the owner and one as the first node, besides
 * any number of simulated nodes.
 */
export interface CuratorCluster extends AsyncDisposable {
  readonly port: number;
  readonly pid: number;
  readonly owner: Client<typeof Curator>;
  readonly first: Client<typeof Curator>;
  /** Adds node records with certificates. The nodes are not connected yet. */
  addNodes(count: number): Promise<readonly SimulatedNode[]>;
}

export async function startCuratorCluster(): Promise<CuratorCluster> {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-bench-curator-'));
  const at = (name: string): string => join(directory, name);
  const etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  const space = new Namespace(root, CLUSTER_PREFIX);
  const signer = new TestOwner({ clock });
  const cluster = await TestCluster.create(space, () => clock.nowMs(), signer);
  const configuration = { version: 1 as const, document: btoa('{}'), updatedMs: 1, updatedBy: 'bench' };
  await space.commit(
    { when: [], then: [put(CONFIGURATION_KEY, records.configuration.encode(configuration))] },
    { signal: never },
  );
  const first = await cluster.addNode('first', { roles: ['ConsensusMember', 'KubernetesController'] });
  const owner = await cluster.addOperator('owner', 'owner');
  const client = await etcd.clientFiles('root');
  const files = {
    'ca.crt': cluster.trust.caPem,
    'node.crt': first.tls.certPem,
    'node.key': first.tls.keyPem.reveal(),
    'etcd-ca.crt': client.caPem,
    'etcd.crt': client.certPem,
    'etcd.key': client.keyPem.reveal(),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(at(name), text, { mode: 0o600 });
  const port = await findFreePort();
  const config = {
    version: 1,
    clusterId: cluster.clusterId,
    nodeId: nodeIdOf(first),
    listen: { host: '127.0.0.1', port },
    clusterCaFile: at('ca.crt'),
    certFile: at('node.crt'),
    keyFile: at('node.key'),
    stores: [],
    ownerKeys: [Buffer.from(signer.pubKey).toString('base64')],
    etcd: {
      endpoints: [member.endpoint],
      caFile: at('etcd-ca.crt'),
      certFile: at('etcd.crt'),
      keyFile: at('etcd.key'),
      metricsUrl: member.metricsUrl,
    },
  };
  await writeFile(at('joinservice.json'), JSON.stringify(config));
  const curator = spawn(execPath, [...programOf(), at('joinservice.json')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await untilListening(port, curator);
  const channels = [owner, first].map((peer) => channelOf(peer, port, cluster));
  const [ownerClient, firstClient] = channels.map((channel) => createClient(Curator, channel));
  if (ownerClient === undefined || firstClient === undefined)
    throw new Error('connecting to the curator: a client is missing');
  return {
    port,
    pid: curator.pid ?? 0,
    owner: ownerClient,
    first: firstClient,
    addNodes: async (count) => {
      const nodes: SimulatedNode[] = [];
      let begun = 0;
      const adding = async (): Promise<void> => {
        while (begun++ < count) {
          const peer = await cluster.addNode(`n${crypto.randomUUID()}`, { roles: ['KubernetesWorker'] });
          nodes.push(new SimulatedNode(nodeIdOf(peer), peer.tls));
        }
      };
      await Promise.all(Array.from({ length: ADDED_AT_ONCE }, adding));
      return nodes;
    },
    [Symbol.asyncDispose]: async () => {
      for (const channel of channels) channel[Symbol.dispose]();
      curator.kill('SIGTERM');
      if (curator.exitCode === null) await once(curator, 'exit');
      await etcd[Symbol.asyncDispose]();
      await rm(directory, { recursive: true });
    },
  };
}

/** The anonymous memory of a process in MB. */
export async function memoryMbOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^RssAnon:\s+([0-9]+) kB/m.exec(status)?.[1] ?? NaN) / 1024;
}

/**
 * The command line of the curator. With `CURATOR_PROFILE=DIRECTORY` it runs from the sources and writes a CPU
 * profile to this directory at its end.
 */
function programOf(): readonly string[] {
  const directory = env['CURATOR_PROFILE'];
  if (directory === undefined) return [...NODE_FLAGS, join(ROOT, 'dist/joinservice.mjs')];
  return [...NODE_FLAGS, '--cpu-prof', `--cpu-prof-dir=${directory}`, join(ROOT, 'joinservice/main.ts')];
}

function channelOf(peer: TestPeer, port: number, cluster: TestCluster): RpcChannel {
  const upgrade = tlsClientUpgrade({
    clock,
    identity: peer.tls,
    accept: (certificate) => verifyNodeCertificate(certificate, cluster.trust),
  });
  return new RpcChannel({ endpoint: `127.0.0.1:${port}`, upgrade });
}

function nodeIdOf({ identity }: TestPeer): string {
  return identity.kind === 'node' ? identity.nodeId : '';
}

async function untilListening(port: number, program: ChildProcess): Promise<void> {
  const deadline = AbortSignal.timeout(START_MS);
  for (;;) {
    if (program.exitCode !== null) throw new Error(`the curator ended with ${program.exitCode}`);
    const socket = connect({ host: '127.0.0.1', port });
    try {
      await once(socket, 'connect');
      return;
    } catch (error) {
      if (deadline.aborted) throw error;
      await clock.sleep(50, never);
    } finally {
      socket.destroy();
    }
  }
}
