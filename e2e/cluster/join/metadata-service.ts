import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { namespaceFile } from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';
import { runGo } from '../../run-go.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';

const MODULE = 'github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock';
const SOURCE = resolve(import.meta.dirname, '../../metadata-peer');
const PROGRAM = '/opt/ec2-metadata-mock';
const INSTALL_MS = 300_000;

const ADD_ADDRESS = 'ip address add 169.254.169.254/32 dev lo';
const UNTIL_UP = `until bash -c 'exec 3<> /dev/tcp/169.254.169.254/80' 2> /dev/null; do sleep 0.1; done`;

/** A mock of the instance metadata service of AWS. It answers on a machine at the link-local address of the service. */
export interface MetadataMock {
  /** Its hints. No machine in these stories has the address in them. */
  readonly hints: Readonly<Record<'name' | 'address' | 'region' | 'zone', string>>;
  start(machine: string): Promise<void>;
  stop(machine: string): Promise<void>;
}

/** Builds AWS' own mock, amazon-ec2-metadata-mock, from its Go module. It answers only requests with a token. */
export async function buildAwsMock(bench: Harness, cluster: StoryCluster): Promise<MetadataMock> {
  const program = join(bench.directory, 'ec2-metadata-mock');
  await runGo(['build', '-trimpath', '-o', program, MODULE], { cwd: SOURCE, signal: bench.signal });
  const input = await readFile(program);
  return {
    hints: {
      name: 'ip-172-16-34-43',
      address: '172.16.34.43',
      region: 'us-east-1',
      zone: 'us-east-1a',
    },
    async start(machine) {
      const node = await (await bench.cluster(cluster.name)).node(machine);
      await node.exec(['sh', '-ec', `cat > ${PROGRAM} && chmod 700 ${PROGRAM}`], {
        input,
        signal: bench.signal,
      });
      await cluster.sh(
        machine,
        `${ADD_ADDRESS}
         systemd-run --quiet --unit metadata-mock ${PROGRAM} --hostname 169.254.169.254 --port 80 --imdsv2
         ${UNTIL_UP}`,
      );
    },
    stop: async (machine) => void (await cluster.sh(machine, 'systemctl stop metadata-mock')),
  };
}

/** The mock of moto, installed with pip. It runs on the host, in the network of the machine. */
export class MotoMock implements MetadataMock, AsyncDisposable {
  readonly hints = {
    name: 'moto-instance',
    address: '127.0.0.1',
    region: 'us-east-1',
    zone: 'us-east-1a',
  } as const;
  readonly #bench: Harness;
  readonly #cluster: StoryCluster;
  readonly #running = new Map<string, ChildProcess>();

  private constructor(bench: Harness, cluster: StoryCluster) {
    this.#bench = bench;
    this.#cluster = cluster;
  }

  static async install(bench: Harness, cluster: StoryCluster): Promise<MotoMock> {
    const mock = new MotoMock(bench, cluster);
    const requirements = join(SOURCE, 'requirements.txt');
    const install = [
      join(mock.#venv, 'bin/pip'),
      'install',
      '--quiet',
      '--requirement',
      requirements,
    ] as const;
    for (const argv of [['python3', '-m', 'venv', mock.#venv] as const, install])
      await bench.machines.commands.run({ argv, timeoutMs: INSTALL_MS, signal: bench.signal });
    return mock;
  }

  get #venv(): string {
    return join(this.#bench.directory, 'moto');
  }

  async start(machine: string): Promise<void> {
    await this.#cluster.sh(machine, ADD_ADDRESS);
    const { network } = await this.#bench.cluster(this.#cluster.name);
    const server = [join(this.#venv, 'bin/moto_server'), '-H', '169.254.169.254', '-p', '80'];
    const [program, ...args] = [
      'nsenter',
      `--net=${namespaceFile(network, machine)}`,
      '--',
      ...server,
    ] as const;
    const child = spawn(program, args, { stdio: 'ignore' });
    await once(child, 'spawn');
    this.#running.set(machine, child);
    await this.#cluster.sh(machine, UNTIL_UP);
  }

  async stop(machine: string): Promise<void> {
    const child = this.#running.get(machine);
    if (child === undefined) return;
    this.#running.delete(machine);
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const machine of this.#running.keys()) await this.stop(machine);
  }
}
