import { cp, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { EtcdClient } from '../../internal/etcd/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import { DiskFiles, type FilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  createMemoryLogger,
  findEtcdBinary,
  findFreePort,
  opened,
  ProcessUnits,
  temporaryDirectory,
} from '../../internal/testing/index.ts';
import type {
  ConsensusConfig,
  ConsensusPorts,
  ConsensusStart,
  RunningConsensus,
} from './consensus-config.ts';
import { consensusLayout, type EtcdClientFiles } from './consensus-layout.ts';
import { startMember } from './consensus.ts';
import { STATE_ETCD } from './etcd-instances.ts';

const { signal } = new AbortController();

/** Only root can create system users and give files to them, so these tests run no commands. */
export const noCommands: CommandRunner = {
  run: () => Promise.resolve({ exitCode: 0, stdout: '', stderr: '' }),
};

/** An etcd member (of the cluster's own state) on the loopback, with a disk of its own. Tests close it with `closeOpened()`. */
export class TestMember {
  readonly config: ConsensusConfig;
  readonly units = opened(new ProcessUnits());
  /** The texts with which the member has reported that it waits. */
  readonly waits: string[] = [];
  readonly commands: CommandRunner;

  constructor(config: ConsensusConfig, commands = noCommands) {
    this.config = config;
    this.commands = commands;
  }

  portsOf(files: FilePort = new DiskFiles()): ConsensusPorts {
    const { commands, units, waits } = this;
    const { log } = createMemoryLogger();
    return { files, commands, units, clock: new SystemClock(), log, onWait: (what) => waits.push(what) };
  }

  async start(
    over: Partial<ConsensusStart> = {},
    files?: FilePort,
    life: AbortSignal = signal,
  ): Promise<RunningConsensus> {
    return opened(await startMember(this.portsOf(files), { ...this.config, ...over }, life));
  }

  kill(): Promise<void> {
    return this.units.kill(STATE_ETCD.unit);
  }
}

/** Members of one cluster that is not started yet. The first one creates it. */
export async function createMembers<T extends number>(count: T): Promise<TestMembers<T>> {
  const clientPorts = await findFreePorts(count);
  const members: TestMember[] = [];
  for (const index of clientPorts.keys()) members.push(await createMember(index, clientPorts));
  return members as unknown as TestMembers<T>;
}

type TestMembers<T extends number> = T extends 1
  ? readonly [TestMember]
  : T extends 2
    ? readonly [TestMember, TestMember]
    : readonly [TestMember, TestMember, TestMember];

/** Member `index` of a cluster with these client ports. */
export async function createMember(index: number, clientPorts: readonly number[]): Promise<TestMember> {
  const { path } = opened(await temporaryDirectory());
  return new TestMember(await testMemberConfig(path, index, clientPorts));
}

/** @param clientPorts the client ports of all members */
export async function testMemberConfig(
  stateDir: string,
  index: number,
  clientPorts: readonly number[],
): Promise<ConsensusConfig> {
  const client = clientPorts[index] ?? 0;
  const [peer = 0, metrics = 0] = await findFreePorts(2);
  return {
    etcd: STATE_ETCD,
    nodeId: `node-${index + 1}`,
    address: '127.0.0.1',
    clusterId: 'c0ffee',
    ports: { client, peer, metrics },
    quotaBytes: 64 * 1024 * 1024,
    createsCluster: index === 0,
    peers: clientPorts.filter((port) => port !== client).map((port) => `127.0.0.1:${port}`),
    etcdBinary: await findEtcdBinary(stateDir),
    layout: consensusLayout(stateDir, 'state'),
    readyTimeoutMs: 30_000,
  };
}

/** Copies the keys that a further control plane gets with its join ticket. */
export async function shareKeys(from: TestMember, to: TestMember): Promise<void> {
  for (const ca of ['state/clients', 'state/peers']) {
    await mkdir(join(to.config.layout.stateDir, 'consensus', 'state'), { recursive: true });
    const [source, target] = [from, to].map(({ config }) => join(config.layout.stateDir, 'consensus', ca));
    await cp(source ?? '', target ?? '', { recursive: true });
  }
}

/** Finds `count` free ports on the loopback address. */
export function findFreePorts(count: number): Promise<readonly number[]> {
  return Promise.all(Array.from({ length: count }, () => findFreePort()));
}

/** A client with the certificate in `identity`, of the etcd with the endpoint and CA in `at`. */
export async function connect(identity: EtcdClientFiles, at = identity): Promise<EtcdClient> {
  const read = (path: string) => readFile(path, 'utf8');
  return opened(
    new EtcdClient({
      endpoints: [at.endpoint.replace('https://', '')],
      identity: { certPem: await read(identity.certFile), keyPem: new Secret(await read(identity.keyFile)) },
      serverCaPem: await read(at.caFile),
      clock: new SystemClock(),
    }),
  );
}
