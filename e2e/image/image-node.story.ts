import assert from 'node:assert/strict';
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { createPrivateKey } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseDocument } from 'yaml';
import { ExecError } from '../../internal/exec/index.ts';
import { hex, identityPolicy, judge, verdictOf } from '../attestation/measured-boot/evidence.ts';
import { unpackPackages } from '../attestation/measured-boot/packages.ts';
import { serveDhcp } from './dhcp-server.ts';
import { bootImage, type ImageMachine } from './image-machine.ts';
import { connect, HOST, nodeOf, runOnNetwork, type Node } from './image-network.ts';
import {
  buildImage,
  buildPrograms,
  cliOf,
  clock,
  copy,
  DISK_REGISTERS,
  fingerprintOf,
  FIRMWARE_REGISTERS,
  makeTpm,
  NOT_A_MEMBER,
  STATE_DEVICE,
  until,
  type Cli,
} from './image-steps.ts';

/**
 * Two machines that boot the same image of `cluster image build` in QEMU become a control plane and a worker whose software is
 * measured, and run pods. The control plane gets new keys for its encrypted disk while it runs. After a power cut, it opens the disk by
 * itself, and the worker opens its own with the share that it gets from the control plane; both are Ready again without a person. Once the
 * worker is removed, its disk stays closed. The emulation needs no KVM, and is about ten times slower than a real machine: the story prints
 * how long each step takes.
 *
 * The machines are in a network namespace of their own. The story runs its second half in it.
 */
const HELLO_PORT = 30080;
const [CONTROL_PLANE, WORKER] = [nodeOf(1), nodeOf(2)];
const NODES = [CONTROL_PLANE, WORKER];
/** The firmware has started. */
const STARTS = /BdsDxe/;
const REFUSED = /disk-share-refused/;
const MEMORY_MIB = 5120;
/** The control plane answers in time while the worker starts. */
const WORKER_NICENESS = 5;
/** Of a command that waits by itself. */
const WAIT = '35m';
/** Emulated machines can miss a time limit that real ones do not. The same command continues then. */
const MOST_ROUNDS = 6;
/** Between two rounds: the request of a machine that is to join needs a moment. */
const ROUND_MS = 20_000;
const STATUS_PAUSE_MS = 30_000;
const log = join(tmpdir(), 'cluster-image-node.log');
/** Prints at once: the runner prints diagnostics of a test when it ends. */
const note = (text: string): Promise<void> => appendFile(log, `=== ${text}\n`);

/** Builds the image. */
async function prepare(directory: string): Promise<void> {
  const at = (name: string): string => join(directory, name);
  for (const { hostname } of NODES) await makeTpm(at(`tpm-${hostname}`));
  await unpackPackages(['ovmf'], at('ovmf'));
  await buildPrograms();
  const cli = cliOf(at('workspace'));
  const { address } = CONTROL_PLANE;
  await cli('config', 'generate', '--name', 'image', '--attestation', 'tpm', '--node', address);
  // Without integrity, since formatting would write the whole disk; image.story.ts has a disk with integrity.
  // prettier-ignore
  await cli(
    'provisioning', 'generate', '--out', at('provisioning.json'),
    '--state-disk', STATE_DEVICE, '--state-disk-pcrs', DISK_REGISTERS.join(','), '--no-state-disk-integrity',
  );
  await buildImage(cli, { out: at('image'), provisioning: at('provisioning.json') });
  for (const { hostname } of NODES) await copy(at('image/disk.raw'), at(`${hostname}.raw`));
}

async function runNode(directory: string): Promise<void> {
  await test('a machine with an image becomes a measured control plane with pods, also after a power cut', async (story) => {
    const at = (name: string): string => join(directory, name);
    const workspace = at('workspace');
    const cli = cliOf(workspace);
    const boot = (node: Node, round: number, until: RegExp): Promise<ImageMachine> =>
      bootImage(at(`${node.hostname}-boot-${round}`), {
        ...{ disk: at(`${node.hostname}.raw`), tpm: at(`tpm-${node.hostname}`), network: node },
        ...{ firmware: at('ovmf/usr/share/OVMF'), log, keepsWrites: true, memoryMib: MEMORY_MIB, until },
        ...{ niceness: node === WORKER ? WORKER_NICENESS : 0 },
      });
    const measured = async <T>(what: string, work: Promise<T>): Promise<T> => {
      const startMs = clock.monotonicMs();
      const result = await work;
      const text = `${what}: ${Math.round((clock.monotonicMs() - startMs) / 1000)} s`;
      story.diagnostic(text);
      await note(text);
      return result;
    };
    await connect(NODES);
    await using _ = await serveDhcp(HOST, NODES);
    await using machines = new Machines();

    await story.test('init creates a cluster on it whose policy names every register', async () => {
      const machine = await measured(
        'first boot, which formats the disk',
        machines.keep(boot(CONTROL_PLANE, 1, NOT_A_MEMBER)),
      );
      const owner = createPrivateKey(await readFile(join(workspace, 'owner-key.pem'), 'utf8'));
      const seen = verdictOf(await judge(owner, machine.endpoint, identityPolicy()));
      const learned = FIRMWARE_REGISTERS.map((pcr): [string, object] => [
        `pcr${pcr}`,
        { expected: hex(seen.measurements.get(`pcr${pcr}`)) },
      ]);
      await writeFile(at('firmware.json'), JSON.stringify({ registers: Object.fromEntries(learned) }));
      const values = { out: at('values'), provisioning: at('provisioning.json') };
      await buildImage(cli, values, '--firmware', at('firmware.json'));
      await requireRegisters(join(workspace, 'cluster.yaml'), at('values/reference-values.json'));
      await measured(
        'init until the sample chart is installed',
        untilDone(() => cli('init', '--fingerprint', `sha256:${fingerprintOf(machine)}`)),
      );
      await measured('until the sample chart responds', untilHello(CONTROL_PLANE));
      await measured('until every check of status passes', untilHealthy(cli));
      await requireMeasured(cli, CONTROL_PLANE);
    });

    await story.test('its mounted disk gets new keys, and its pods do not notice', async () => {
      const said = await cli('node', 'rotate-disk-keys', 'n1', '--yes');
      await note(said);
      assert.match(said, /has new keys; the earlier ones no longer open it/);
      await measured('until every check of status passes', untilHealthy(cli));
      await untilHello(CONTROL_PLANE);
    });

    await story.test('a second machine with the same image joins as a worker and runs pods', async () => {
      const machine = await measured(
        'first boot of the worker',
        machines.keep(boot(WORKER, 1, NOT_A_MEMBER)),
      );
      const fingerprint = `sha256:${fingerprintOf(machine)}`;
      await cli('join', '--node', WORKER.address, '--fingerprint', fingerprint);
      await measured(
        'until the worker is Ready',
        untilDone(() => cli('node', 'approve', fingerprint, '--name', 'n2', '--wait', '--timeout', WAIT)),
      );
      await startOnAll(join(workspace, 'cluster.yaml'));
      await untilDone(() => cli('init'));
      await measured('until the sample chart responds on the worker', untilHello(WORKER));
      await measured('until every check of status passes', untilHealthy(cli));
      await requireMeasured(cli, WORKER);
      await until('a signer has the cluster share of the worker’s disk', async () =>
        /keeps the node share only/.test(await cli('attest', 'approve', 'n2', '--dry-run')),
      );
    });

    await story.test(
      'after a power cut of both, their disks open by themselves, and both nodes are Ready without a person',
      async () => {
        await machines.cutPower();
        await Promise.all(NODES.map((node) => machines.keep(boot(node, 2, STARTS))));
        await measured('until the sample chart responds on both', Promise.all(NODES.map(untilHello)));
        await measured('until every check of status passes', untilHealthy(cli));
      },
    );

    await story.test('the disk of a removed worker stays closed', async () => {
      await machines.cutPower(WORKER);
      await cli('node', 'remove', 'n2', '--lost', '--keep-keys', '--yes');
      await measured('until the removed worker is refused', machines.keep(boot(WORKER, 3, REFUSED)));
      await measured('until every check of status passes', untilHealthy(cli));
    });
  });
}

/** The machines that run. */
class Machines implements AsyncDisposable {
  readonly #running = new Map<string, ImageMachine>();

  async keep(booting: Promise<ImageMachine>): Promise<ImageMachine> {
    const machine = await booting;
    this.#running.set(machine.endpoint, machine);
    return machine;
  }

  /** Cuts the power of one machine, or of all. */
  async cutPower(node?: Node): Promise<void> {
    const all = [...this.#running].filter(([endpoint]) => endpoint.startsWith(`${node?.address ?? ''}`));
    for (const [endpoint, machine] of all) {
      this.#running.delete(endpoint);
      await machine[Symbol.asyncDispose]();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cutPower();
  }
}

/** `cluster verify` judges every register. */
async function requireMeasured(cli: Cli, { hostname }: Node): Promise<void> {
  const verified = await cli('verify', hostname);
  await note(verified);
  assert.match(verified, /measured/);
}

/** Makes the configuration accept machines with these registers only, and adds the sample chart. */
async function requireRegisters(path: string, values: string): Promise<void> {
  const configuration = parseDocument(await readFile(path, 'utf8'));
  const { registers } = JSON.parse(await readFile(values, 'utf8')) as { registers: Record<string, unknown> };
  const pcrs = Object.keys(registers).map((name) => Number(name.slice('pcr'.length)));
  const policy = ['attestation', 'policy'];
  configuration.setIn([...policy, 'name'], 'image');
  configuration.setIn([...policy, 'profile'], 'measured');
  configuration.setIn([...policy, 'registers'], configuration.createNode(registers));
  configuration.setIn([...policy, 'tpm', 'requiredPcrs'], configuration.createNode(pcrs));
  const chart = {
    name: 'hello',
    chart: 'bundle:hello',
    values: { replicas: 1, service: { nodePort: HELLO_PORT } },
  };
  configuration.setIn(['firstNode', 'name'], 'n1');
  configuration.setIn(['charts'], configuration.createNode([chart]));
  await writeFile(path, String(configuration));
}

/** Makes the sample chart have as many pods as there are nodes. The scheduler prefers a node that has none. */
async function startOnAll(path: string): Promise<void> {
  const configuration = parseDocument(await readFile(path, 'utf8'));
  configuration.setIn(['charts', 0, 'values', 'replicas'], NODES.length);
  await writeFile(path, String(configuration));
}

async function untilDone(command: () => Promise<string>): Promise<void> {
  for (let round = 1; ; round++) {
    try {
      await note(await command());
      return;
    } catch (error) {
      const text = error instanceof ExecError ? error.outputTail : String(error);
      await note(`round ${round}: ${text}`);
      if (round === MOST_ROUNDS) throw error;
      await clock.sleep(ROUND_MS, new AbortController().signal);
    }
  }
}

/** Requests the sample service through the NodePort of a node until a pod on that node responds. */
async function untilHello({ address, hostname }: Node): Promise<void> {
  const url = `http://${address}:${HELLO_PORT}/`;
  await until(`the sample chart responds on ${hostname}`, async () => {
    const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
    return (await response.text()).includes(` node=${hostname} `);
  });
}

/** `cluster status` ends with an error while something is not ready. It asks every program, which takes emulated machines much of their time. */
async function untilHealthy(cli: Cli): Promise<void> {
  await until('every check of status passes', async () => (await cli('status')) !== '', STATUS_PAUSE_MS);
}

// At the end, since a class can only be used below it.
await runOnNetwork(import.meta.filename, { prepare, run: runNode });
