import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LocalNode } from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';
import type { StoredEvent } from '../init/watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';

const POLL_MS = 2;
const TIMEOUT_S = 60;
const PROVISIONING = '/etc/cluster/provisioning.json';

/** Files on the machine that show whether the init or the join won the race for it. */
export interface MachineTraces {
  /** Whether the init request is on disk. Only the init writes it. */
  readonly request: boolean;
  readonly admission: boolean;
  readonly kubeletCredentials: boolean;
  /** Whether the CA key of a cluster is on disk. Only the machine that created the cluster has this key. */
  readonly clusterKeys: boolean;
}

/** The agent's process according to systemd. */
export interface AgentProcess {
  readonly pid: string;
  readonly restarts: string;
}

/** A machine that is reset before each round. The story reads the machine's disk from outside. */
export class RacingMachine {
  readonly node: LocalNode;
  readonly #bench: Harness;
  readonly #cluster: StoryCluster;

  constructor(bench: Harness, cluster: StoryCluster, node: LocalNode) {
    this.#bench = bench;
    this.#cluster = cluster;
    this.node = node;
  }

  sh(script: string): Promise<string> {
    return this.#cluster.sh(this.node.name, script);
  }

  async provisioning(): Promise<Readonly<Record<string, unknown>>> {
    return JSON.parse(await this.sh(`cat ${PROVISIONING}`)) as Readonly<Record<string, unknown>>;
  }

  /** Changes the provisioning, which the agent reads at its next start. */
  async provision(change: Readonly<Record<string, unknown>>): Promise<void> {
    const provisioning = JSON.stringify({ ...(await this.provisioning()), ...change });
    await this.sh(`echo ${Buffer.from(provisioning).toString('base64')} | base64 -d > ${PROVISIONING}`);
  }

  /** Waits for the fingerprint of a new key that differs from `before`. */
  async fingerprint(before: string | undefined): Promise<string> {
    return eventually(
      'the machine has a key of its own',
      TIMEOUT_S,
      async () => (await this.#text('machine/fingerprint'))?.trim() ?? '',
      (now) => now.startsWith('sha256:') && now !== before,
    );
  }

  /** Waits for the node lock, and returns its bytes. */
  async locked(): Promise<string> {
    for (const deadline = Date.now() + TIMEOUT_S * 1000; Date.now() < deadline; await delay(POLL_MS)) {
      const text = await this.lock();
      if (text?.endsWith('\n') === true) return text;
    }
    throw new Error(`neither init nor join has locked the machine within ${TIMEOUT_S} s`);
  }

  lock(): Promise<string | undefined> {
    return this.#text('enrolment/lock.json');
  }

  /** The cluster ID in the membership file. */
  async memberOf(): Promise<string | undefined> {
    const text = await this.#text('membership/membership.json');
    return text === undefined ? undefined : (JSON.parse(text) as Member).value.clusterId;
  }

  async events(): Promise<readonly StoredEvent[]> {
    const lines = ((await this.#text('init/events.jsonl')) ?? '').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as StoredEvent);
  }

  async traces(): Promise<MachineTraces> {
    return {
      request: await this.#has('init', 'request.json'),
      admission: await this.#has('enrolment', 'join.json'),
      kubeletCredentials: await this.#has('kubernetes', 'kubelet-client.crt'),
      clusterKeys: await this.#has('ca', 'ca.key'),
    };
  }

  async agent(): Promise<AgentProcess> {
    const shown = await this.#shown('MainPID', 'NRestarts');
    return { pid: shown['MainPID'] ?? '', restarts: shown['NRestarts'] ?? '' };
  }

  /** Restarts the agent. Resolves when the new process is ready. */
  async restart(how: 'kill -9' | 'restart', { pid }: AgentProcess): Promise<void> {
    if (how === 'restart') return void (await this.sh('systemctl restart bootstrapper'));
    await this.sh(`kill -9 ${pid}`);
    await eventually(
      'systemd has started the agent again',
      TIMEOUT_S,
      () => this.#shown('MainPID', 'ActiveState'),
      (shown) => shown['ActiveState'] === 'active' && shown['MainPID'] !== pid,
    );
  }

  /**
   * Resets the machine with the agent's own reset: the agent finds an order of the owner on its disk at its
   * start. A machine with a TPM shuts down to clear its PCR, and this function starts it again.
   */
  async reset(hasTpm: boolean): Promise<void> {
    const order = 'install -D /dev/null /var/lib/cluster/reset/order.json';
    if (!hasTpm) return void (await this.sh(`${order} && systemctl restart bootstrapper`));
    await this.sh(`${order} && systemctl restart --no-block bootstrapper`);
    await eventually(
      'the machine has shut down to clear its PCR',
      TIMEOUT_S,
      () => this.node.isRunning(this.#bench.signal),
      (isOn) => !isOn,
    );
    await this.node.start(this.#bench.signal);
  }

  /** The log of one agent process, or the last lines of the unit. */
  log(agent?: AgentProcess): Promise<string> {
    const which = agent === undefined ? '-n 60' : `_PID=${agent.pid}`;
    return this.sh(`journalctl -u bootstrapper --no-pager -o cat ${which}`);
  }

  /** Reads properties of the agent's unit. */
  async #shown(...names: readonly string[]): Promise<Readonly<Record<string, string>>> {
    const text = await this.sh(`systemctl show --property ${names.join(',')} bootstrapper`);
    return Object.fromEntries(text.split('\n').map((line) => line.split('=') as [string, string]));
  }

  async #has(directory: string, name: string): Promise<boolean> {
    const names: readonly string[] = await readdir(this.#path(directory)).catch(() => []);
    return names.includes(name);
  }

  #text(name: string): Promise<string | undefined> {
    return readFile(this.#path(name), 'utf8').catch(() => undefined);
  }

  #path(name: string): string {
    return join(this.node.paths.data, 'cluster', name);
  }
}

interface Member {
  readonly value: { readonly clusterId: string };
}
