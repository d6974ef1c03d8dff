import type { Clock } from '../../../internal/clock/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { KEYS_VARIABLE } from '../kubeadm/kubeadm-config.ts';
import { STATIC_PODS, type SharedKeyState, type StaticPod } from '../credentials/shared-keys.ts';

const MAX_BYTES = 256 * 1024;
/** What the kernel keeps of a program's name. */
const COMM_CHARS = 15;
/**
 * The scope of a container of a static pod of this machine's own kubelet: such a pod's uid is a digest of its manifest, one
 * that came by the API has a UUID (kubelet, pkg/kubelet/config/common.go). API servers in workloads are none of ours.
 */
const STATIC_SCOPE =
  /^[^:]*:[^:]*:\/kubepods\.slice\/(?:kubepods-[a-z]+\.slice\/)?kubepods-(?:[a-z]+-)?pod[0-9a-f]{32}\.slice\/(cri-containerd-[0-9a-f]+\.scope)$/m;
/** For what is under way when an API server was told to end. */
const ANSWERS_MS = 3_000;
const KILL_MS = 10_000;

export interface StaticPodState {
  /** Those that don't run with the keys on disk yet. */
  readonly stale: readonly StaticPod[];
  /** The scopes of API servers that run with others. */
  readonly oldApiServers: readonly string[];
}

/**
 * Which static pods run with the keys on disk. Asked of the kernel: an API server that answers may be the one that the
 * kubelet is about to stop.
 */
export async function readStaticPodState(
  files: FilePort,
  { podDigests: digests }: SharedKeyState,
): Promise<StaticPodState> {
  const wanted = STATIC_PODS.filter((pod) => digests?.[pod] !== undefined);
  if (wanted.length === 0) return { stale: [], oldApiServers: [] };
  const running = new Set<StaticPod>();
  const oldApiServers: string[] = [];
  const pids = (await files.list('/proc')).filter((name) => /^[0-9]+$/.test(name));
  for (const pid of pids) {
    const program = (await textOf(files, `/proc/${pid}/comm`)).trim();
    const pod = wanted.find((name) => name.slice(0, COMM_CHARS) === program);
    if (pod === undefined) continue;
    const scope = STATIC_SCOPE.exec(await textOf(files, `/proc/${pid}/cgroup`))?.[1];
    if (scope === undefined) continue;
    const variables = (await textOf(files, `/proc/${pid}/environ`)).split('\0');
    if (variables.includes(`${KEYS_VARIABLE}=${digests?.[pod]}`)) running.add(pod);
    else if (pod === 'kube-apiserver') oldApiServers.push(scope);
  }
  return { stale: wanted.filter((pod) => !running.has(pod)), oldApiServers };
}

/**
 * Ends API servers that were told to end and take no connections any more. They would wait for watches, which don't end by
 * themselves, until the kubelet kills them after thirty seconds; the next one waits for that, and meanwhile there is none.
 * A second signal ends one at once (k8s.io/apiserver/pkg/server/signal.go).
 */
export class ApiServerDrain {
  readonly #ports: { readonly commands: CommandRunner; readonly clock: Clock };
  readonly #told = new Set<string>();
  #refusesSinceMs: number | undefined;

  constructor(ports: { readonly commands: CommandRunner; readonly clock: Clock }) {
    this.#ports = ports;
  }

  /** @param probe rejects with ECONNREFUSED where nobody listens */
  async check(
    { oldApiServers }: StaticPodState,
    probe: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const nowMs = this.#ports.clock.monotonicMs();
    const refuses = oldApiServers.length > 0 && (await isRefused(probe));
    this.#refusesSinceMs = refuses ? (this.#refusesSinceMs ?? nowMs) : undefined;
    if (this.#refusesSinceMs === undefined || nowMs - this.#refusesSinceMs < ANSWERS_MS) return;
    for (const scope of oldApiServers.filter((each) => !this.#told.has(each))) {
      this.#told.add(scope);
      await this.#end(scope, signal);
    }
  }

  async #end(scope: string, signal: AbortSignal): Promise<void> {
    const { commands } = this.#ports;
    try {
      const argv = ['systemctl', 'kill', '--signal=TERM', scope] as const;
      await commands.run({ argv: [...argv], timeoutMs: KILL_MS, signal });
    } catch {
      signal.throwIfAborted(); // it has ended, or the kubelet ends it later
    }
  }
}

async function isRefused(probe: () => Promise<void>): Promise<boolean> {
  try {
    await probe();
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';
  }
}

/** A process that has ended meanwhile says nothing. */
async function textOf(files: FilePort, path: string): Promise<string> {
  try {
    return Buffer.from((await files.read(path, MAX_BYTES)) ?? []).toString('utf8');
  } catch {
    return '';
  }
}
