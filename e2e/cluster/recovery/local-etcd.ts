import assert from 'node:assert/strict';
import type { Harness, CliResult } from '../../machines/harness.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';
import { NodeShell } from '../harness/node-shell.ts';

/** The part of the output of `cluster recover quorum` that is about one etcd cluster. */
export interface SurveyedEtcd {
  readonly name: string;
  readonly epoch: number;
  readonly own: { readonly raftIndex?: number; readonly hasLeader: boolean };
  readonly others: readonly {
    readonly endpoint: string;
    readonly raftIndex?: number;
    readonly hasLeader: boolean;
  }[];
}

/** Output of `cluster recover quorum`; `state` and `kubernetes` are the two etcd clusters. */
export interface Surveyed extends Omit<SurveyedEtcd, 'name'> {
  readonly clusterName: string;
  readonly state: SurveyedEtcd;
  readonly refusals: readonly string[];
  readonly losses: readonly string[];
}

interface Line {
  readonly type: string;
  readonly code?: string;
  readonly message?: string;
  readonly data?: unknown;
}

/** The result of a run of `cluster recover quorum`. */
export interface Recovery {
  readonly exit: number;
  /** The error code of the command; undefined if it succeeded. */
  readonly code: string | undefined;
  readonly said: string;
  readonly survey: Surveyed | undefined;
  readonly result: Surveyed | undefined;
}

interface Shown extends Pick<Surveyed, 'clusterName' | 'refusals' | 'losses'> {
  readonly etcd: readonly SurveyedEtcd[];
}

/** Converts the CLI's output: the fields of the Kubernetes etcd, and the state etcd as `state`. */
function surveyFrom(shown: Shown | undefined): Surveyed | undefined {
  if (shown === undefined) return undefined;
  const [state, kubernetes] = ['state', 'kubernetes'].map((each) =>
    shown.etcd.find(({ name }) => name === each),
  );
  assert.ok(state !== undefined && kubernetes !== undefined, JSON.stringify(shown));
  return { ...shown, ...kubernetes, state };
}

/** One etcd member of one machine. All commands run on that machine and ask this member only. */
export class LocalEtcd {
  readonly #cluster: StoryCluster;
  readonly #shell: NodeShell;
  readonly #machine: string;

  readonly #etcd: 'state' | 'kubernetes';

  constructor(bench: Harness, cluster: StoryCluster, machine: string, etcd: 'state' | 'kubernetes') {
    this.#etcd = etcd;
    this.#cluster = cluster;
    this.#shell = new NodeShell(bench, cluster.name, machine);
    this.#machine = machine;
  }

  /**
   * The status that the member itself reports, with or without a quorum. IDs are strings, because they exceed
   * safe integers.
   */
  async status() {
    const text = await this.#ask('endpoint', 'status', '--write-out', 'json');
    const field = (name: string): string => new RegExp(`"${name}":(\\d+)`).exec(text)?.[1] ?? '';
    return {
      clusterId: field('cluster_id'),
      revision: Number(field('revision')),
      raftIndex: Number(field('raftIndex')),
      hasLeader: !['', '0'].includes(field('leader')),
    };
  }

  /** "NAME voter" or "NAME learner" of each member that has started; needs a quorum. */
  async members(): Promise<readonly string[]> {
    const lines = (await this.#ask('member', 'list')).trim().split('\n');
    return lines.map((line) => {
      const [, state, name, , , isLearner] = line.split(', ');
      return `${name} ${state === 'started' ? (isLearner === 'true' ? 'learner' : 'voter') : state}`;
    });
  }

  /** A hash of all data of etcd at a revision. Members of the same cluster have the same hash. */
  async hashAt(revision: number): Promise<string> {
    const text = await this.#ask('endpoint', 'hashkv', '--rev', String(revision), '--write-out', 'json');
    const [, hash] = /"hash":(\d+)/.exec(text) ?? [];
    const [, compacted] = /"compact_revision":(\d+)/.exec(text) ?? [];
    assert.ok(hash !== undefined, text);
    return `${hash} after ${compacted}`;
  }

  /** Why the member refuses to read at a revision; undefined if it does not refuse. */
  async refusalAt(revision: number): Promise<string | undefined> {
    const args = ['get', '--rev', String(revision), '--keys-only', '--limit', '1', '--prefix', '/'];
    const { code, stderr } = await this.#shell.etcdctl(
      this.#etcd === 'state' ? 'root' : 'kubernetes-root',
      ...args,
    );
    return code === 0 ? undefined : stderr;
  }

  async epoch(): Promise<number> {
    return Number(
      await this.#cluster.run(this.#machine, 'cat', `/var/lib/cluster/consensus/${this.#etcd}/epoch`),
    );
  }

  /** Everything that a recovery changes on its machine: processes, orders, and the state of etcd. */
  async traces(): Promise<string> {
    const disk = await this.#cluster.sh(
      this.#machine,
      `cd /var/lib/cluster
       systemctl show --property MainPID --value cluster-etcd-state cluster-etcd-kubernetes bootstrapper
       cat consensus/*/epoch 2>/dev/null || true
       ls consensus/* etcd-*
       ls consensus/*/recovery recovery 2>/dev/null || true`,
    );
    const { clusterId, raftIndex, revision } = await this.status();
    return [disk, clusterId, raftIndex, revision].join('\n');
  }

  async #ask(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.#shell.etcdctl(
      this.#etcd === 'state' ? 'root' : 'kubernetes-root',
      ...args,
    );
    assert.equal(code, 0, `etcdctl ${args.join(' ')} on ${this.#machine}: ${stderr}`);
    return stdout;
  }
}

/** Runs `cluster recover quorum` as root on a machine. */
export async function recoverQuorum(
  cluster: StoryCluster,
  machine: string,
  ...flags: readonly string[]
): Promise<Recovery> {
  const argv = ['cluster', 'recover', 'quorum', ...flags, '--output', 'json', '--events', 'stdout'];
  return recoveryFrom(await cluster.try(machine, ...argv));
}

function recoveryFrom({ code: exit, stdout, stderr }: CliResult): Recovery {
  const lines = stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);
  const find = (fits: (line: Line) => boolean) => surveyFrom(lines.find(fits)?.data as Shown | undefined);
  const error = lines.find(({ type }) => type === 'error');
  return {
    exit,
    code: error?.code,
    said: `${stdout}\n${stderr}`,
    survey: find(({ code }) => code === 'recover-survey'),
    result: find(({ type }) => type === 'result'),
  };
}
