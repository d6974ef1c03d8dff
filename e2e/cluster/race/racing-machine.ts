import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LocalNode } from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';
import type { StoredEvent } from '../init/watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';

const LOOK_MS = 2;
const PATIENCE_S = 60;
const PROVISIONING = '/etc/cluster/provisioning.json';

/** What it has of either of the two. */
export interface MachineTraces {
  /** Of the init, with the unlock key of its cluster. */
  readonly request: boolean;
  readonly admission: boolean;
  readonly kubeletCredentials: boolean;
  /** Which only who creates a cluster makes. */
  readonly clusterKeys: boolean;
}

/** The agent's process as systemd knows it. */
export interface AgentProcess {
  readonly pid: string;
  readonly restarts: string;
}

/** A machine that nobody has, again and again; its disk is looked at from outside. */
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

  /** What another life of the agent begins with. */
  async provision(change: Readonly<Record<string, unknown>>): Promise<void> {
    const provisioning = JSON.stringify({ ...(await this.provisioning()), ...change });
    await this.sh(`echo ${Buffer.from(provisioning).toString('base64')} | base64 -d > ${PROVISIONING}`);
  }

  /** Its fingerprint, which another key than that of `before` has. */
  async fingerprint(before: string | undefined): Promise<string> {
    return eventually(
      'the machine has a key of its own',
      PATIENCE_S,
      async () => (await this.#text('machine/fingerprint'))?.trim() ?? '',
      (now) => now.startsWith('sha256:') && now !== before,
    );
  }

  /** The bytes of its lock, as soon as they are there. */
  async locked(): Promise<string> {
    for (const deadline = Date.now() + PATIENCE_S * 1000; Date.now() < deadline; await delay(LOOK_MS)) {
      const text = await this.lock();
      if (text?.endsWith('\n') === true) return text;
    }
    throw new Error(`nobody has taken the machine within ${PATIENCE_S} s`);
  }

  lock(): Promise<string | undefined> {
    return this.#text('enrolment/lock.json');
  }

  /** The cluster that its membership names. */
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

  /** Another life of the agent, which is ready when this resolves. */
  async restart(how: 'kill -9' | 'restart', { pid }: AgentProcess): Promise<void> {
    if (how === 'restart') return void (await this.sh('systemctl restart bootstrapper'));
    await this.sh(`kill -9 ${pid}`);
    await eventually(
      'systemd has started the agent again',
      PATIENCE_S,
      () => this.#shown('MainPID', 'ActiveState'),
      (shown) => shown['ActiveState'] === 'active' && shown['MainPID'] !== pid,
    );
  }

  /**
   * By the agent's own reset: an order of the owner waits on the disk for the next start of the agent. A machine with a
   * TPM it has restarted for the register, and what was switched off is switched on here.
   */
  async reset(hasTpm: boolean): Promise<void> {
    const order = 'install -D /dev/null /var/lib/cluster/reset/order.json';
    if (!hasTpm) return void (await this.sh(`${order} && systemctl restart bootstrapper`));
    await this.sh(`${order} && systemctl restart --no-block bootstrapper`);
    await eventually(
      'the machine has ended for its register',
      PATIENCE_S,
      () => this.node.isRunning(this.#bench.signal),
      (isOn) => !isOn,
    );
    await this.node.start(this.#bench.signal);
  }

  /** Of one life of the agent, or the last lines of all. */
  log(agent?: AgentProcess): Promise<string> {
    const which = agent === undefined ? '-n 60' : `_PID=${agent.pid}`;
    return this.sh(`journalctl -u bootstrapper --no-pager -o cat ${which}`);
  }

  /** Properties of the agent's unit. */
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
