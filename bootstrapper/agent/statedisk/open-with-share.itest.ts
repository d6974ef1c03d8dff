import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { recoveryKeyOfOwner } from '../../../internal/backup/index.ts';
import { untilAborted } from '../../../internal/cleanup/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import type { Provisioning } from '../../../internal/config/index.ts';
import { generateEd25519Key } from '../../../internal/crypto/index.ts';
import { ExecaRunner, type Command, type CommandRunner } from '../../../internal/exec/index.ts';
import { DiskFiles, DiskStreams, KernelFiles, type FilePort } from '../../../internal/file/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { diskStateOf, isSealedShare } from '../../../internal/statedisk/index.ts';
import {
  createMemoryLogger,
  createSwtpmFactory,
  type SwtpmFactory,
} from '../../../internal/testing/index.ts';
import { FakeCluster } from '../../../internal/testing/cluster/fake-cluster.ts';
import { createTpm } from '../../attest/index.ts';
import { FakeKernel } from '../../disk/fake-kernel.ts';
import { provisionedDisk, type AskShare } from '../../disk/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { openClosedMachine } from './closed-disk.ts';
import { createDiskShare } from './create-disk-share.ts';
import type { DiskShare } from './disk-share-worker.ts';
import type { DiskKeys } from './rotation-order.ts';
import { openWithAnswer, openProvisionedDisk } from './open-state-disk.ts';

const clock = new SystemClock();
const { signal } = new AbortController();
const { recipient } = recoveryKeyOfOwner(generateEd25519Key());

let directory: string;
let factory: SwtpmFactory;
let cluster: FakeCluster;
let kernel: FakeKernel;
beforeEach(async () => {
  directory = await mkdtemp('/dev/shm/cluster-open-share-');
  factory = await createSwtpmFactory();
  cluster = await FakeCluster.start(clock);
  cluster.behaviour.diskShare = (request, session) => {
    return Promise.resolve(cluster.diskShareFor(request, session, { share: shareOf(request.uuid) }));
  };
  kernel = new FakeKernel({ commands: below(), files: filesBelow(), streams: new DiskStreams() });
  for (const name of ['run', 'etc', 'var/lib', 'opt'])
    await mkdir(join(directory, name), { recursive: true });
  await writeFile(join(directory, 'disk'), '');
  await truncate(join(directory, 'disk'), 64 * 2 ** 20);
}, 60_000);
afterEach(async () => {
  await cluster[Symbol.asyncDispose]();
  await factory[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

function shareOf(uuid: string): Uint8Array {
  return new Uint8Array(createHash('sha256').update(`of the cluster ${uuid}`).digest());
}

/** The path of the machine in the directory of the test; devices and the kernel's files stay where they are. */
const at = (path: string): string =>
  path.startsWith(directory) || /^\/(?:dev|proc|sys)\//.test(path) ? path : `${directory}${path}`;

function filesBelow(): FilePort {
  const files = new DiskFiles();
  return new Proxy(files, {
    get: (target, name: keyof FilePort) => {
      const called = target as unknown as Record<string, (path: string, ...rest: unknown[]) => unknown>;
      return (path: string, ...rest: unknown[]) => called[name]?.(at(path), ...rest);
    },
  });
}

function below(): CommandRunner {
  const runner = new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' });
  const mapped = ([program, ...args]: Command['argv']): Command['argv'] => [
    program,
    ...args.map((each) => (/^\/(?:run|var|etc|opt)\//.test(each) ? at(each) : each)),
  ];
  return { run: (command) => runner.run({ ...command, argv: mapped(command.argv) }) };
}

/** Runs a machine with this TPM. */
async function running<T>(
  use: (machine: {
    readonly ports: AgentPorts;
    readonly options: AgentOptions;
    readonly statuses: string[];
  }) => Promise<T>,
): Promise<T> {
  await using swtpm = await factory.start();
  const statuses: string[] = [];
  const told = async (status: string): Promise<void> => void statuses.push(await Promise.resolve(status));
  const ports = {
    ...{ commands: kernel.commands, files: kernel.files, streams: kernel.streams, clock },
    ...{ kernel: new KernelFiles(), log: createMemoryLogger().log, random: () => 0.5 },
  } as unknown as AgentPorts;
  const provisioning = {
    tpm: { kind: 'socket', path: swtpm.socketPath, lockPcr: 15, sealedPcrs: [7] },
    processor: 'none',
    ownerKeys: [Buffer.from(cluster.ownerKey).toString('base64')],
    joinEndpoints: [cluster.endpoint],
    stateDisk: {
      ...{ device: join(directory, 'disk'), pcrs: [7], integrity: false },
      ...{ recoveryRecipients: [recipient], recoveryThreshold: 1 },
    },
  } as unknown as Provisioning;
  const options = {
    ...{ provisioning, agentVersion: '0.1.0', signal },
    ...{ onReady: told, onStatus: told, onSlowStart: () => Promise.resolve() },
  } as unknown as AgentOptions;
  return await use({ ports, options, statuses });
}

/** Switches the machine off and on. */
async function reboot(): Promise<void> {
  kernel.reboot();
  await rm(join(directory, 'run'), { recursive: true, force: true });
  await mkdir(join(directory, 'run'));
}

async function keepsShare(): Promise<boolean> {
  await using handle = await open(join(directory, 'disk'));
  const { buffer } = await handle.read(Buffer.alloc(2 ** 24), 0, 2 ** 24, 0);
  const state = diskStateOf(buffer);
  if (state.kind !== 'ready') throw new Error(state.kind);
  return isSealedShare(state.record.content.clusterShare);
}

/** Switches the machine off and on, and opens its disk as the agent does. */
async function opened(): Promise<void> {
  await reboot();
  await running(async ({ ports, options, statuses }) => {
    await openProvisionedDisk(ports, options);
    expect(kernel.mountPoints).toContain('/var/lib/cluster');
    expect(statuses).toEqual([]);
  });
}

/** The work of a running agent on its disk, with the evidence of a machine. */
function working(
  use: (work: { readonly diskShare: DiskShare; readonly diskKeys: DiskKeys }) => Promise<unknown>,
) {
  return running(async ({ ports, options }) => {
    const tpm = createTpm(options.provisioning.tpm, clock);
    if (tpm === undefined) throw new TypeError('no TPM');
    await using _tpm = tpm;
    const { evidence } = await openClosedMachine(ports, options, { tpm });
    const membership = {
      membership: { load: () => Promise.resolve({ clusterCaPem: cluster.caPem }) },
    } as never;
    const { diskShare, diskKeys } = createDiskShare({
      ...ports,
      ...options,
      tpm,
      evidence,
      state: membership,
    });
    if (diskShare === undefined || diskKeys === undefined) throw new TypeError('no state disk');
    await use({ diskShare, diskKeys });
  });
}

/** As the worker moves the share. */
function moved(move: 'give' | 'takeBack'): Promise<void> {
  return working(({ diskShare }) => {
    const { clusterId, caPem: clusterCaPem, nodeId } = cluster;
    const controlPlanes = [{ nodeId, host: '127.0.0.9' }];
    const source = { clusterId, clusterCaPem, caGeneration: 1, floors: {}, controlPlanes, endpoints: [] };
    return move === 'give' ? diskShare.give(source, signal) : diskShare.takeBack(signal);
  });
}

test('a worker gives its share away over attested TLS, opens its disk with the share of a signer at the next start, and takes a share back', async () => {
  await opened();
  expect([await keepsShare(), cluster.said]).toEqual([true, []]);
  await moved('give');
  expect([await keepsShare(), cluster.said]).toEqual([false, ['introduce', 'disk share']]);
  cluster.said.length = 0;
  await opened();
  expect(cluster.said).toEqual(['introduce', 'disk share']);
  await moved('takeBack');
  cluster.said.length = 0;
  await opened();
  expect([await keepsShare(), cluster.said]).toEqual([true, []]);
}, 120_000);

test('a closed worker asks the endpoints that root writes beside the provisioning when all control planes have moved', async () => {
  await opened();
  await moved('give');
  await using elsewhere = await cluster.startSecond(clock);
  elsewhere.behaviour.diskShare = (request, session) => {
    return Promise.resolve(elsewhere.diskShareFor(request, session, { share: shareOf(request.uuid) }));
  };
  await cluster[Symbol.asyncDispose]();
  await mkdir(join(directory, 'etc/cluster'), { recursive: true });
  const beside = JSON.stringify({ joinEndpoints: [elsewhere.endpoint] });
  await writeFile(join(directory, 'etc/cluster/join.json'), beside);
  await opened();
  expect(elsewhere.said).toEqual(['introduce', 'disk share']);
}, 120_000);

test('a recovery ends the question for the share of a disk, but not the opening of the disk after it', async () => {
  await opened();
  await moved('give');
  await reboot();
  await running(async ({ ports, options }) => {
    const { tpm: provisioned, stateDisk } = options.provisioning;
    const tpm = createTpm(provisioned, clock);
    if (tpm === undefined || stateDisk === undefined) throw new TypeError('no disk');
    await using _tpm = tpm;
    const disk = { diskPorts: { ...ports, tpm }, settings: provisionedDisk(stateDisk) };
    const recovery = new Error('an owner recovers the disk');
    const unanswered = openWithAnswer(disk, (_, alive) => untilAborted(alive), {
      alive: AbortSignal.abort(recovery),
      signal,
    });
    await expect(unanswered).rejects.toBe(recovery);
    const question = new AbortController();
    const askShare: AskShare = async ({ uuid, test: tested }, alive) => {
      const share = new Secret(shareOf(uuid));
      await tested(share, alive);
      question.abort(recovery);
      return { share, nodeId: 'node-1', endpoint: 'node-1:9090' };
    };
    expect(await openWithAnswer(disk, askShare, { alive: question.signal, signal })).toBe('opened');
    expect(kernel.mountPoints).toContain('/var/lib/cluster');
  });
}, 120_000);

test('new keys of the disk wait for no other work on its record, like an approval: they are refused meanwhile', async () => {
  await opened();
  await working(async ({ diskShare, diskKeys }) => {
    const approving = Promise.withResolvers<void>();
    const other = diskShare.queue.run(() => approving.promise);
    await expect(diskKeys.rotate({} as never, signal)).rejects.toMatchObject({ code: 'disk-share-moving' });
    approving.resolve();
    await other;
  });
}, 120_000);
