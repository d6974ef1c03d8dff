import { readText, type FilePort } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { KEYS_VARIABLE } from '../kubeadm/kubeadm-config.ts';
import { STATIC_PODS, type SharedKeyState, type StaticPod } from '../credentials/shared-keys.ts';

/** Linux cuts process names to 15 characters (TASK_COMM_LEN). */
const COMM_CHARS = 15;
/**
 * Matches the systemd scope of a container of a static pod. The uid of a static pod is a digest of its
 * manifest; the uid of any other pod is a UUID (kubelet, pkg/kubelet/config/common.go). API servers that run
 * as workloads therefore do not match.
 */
const STATIC_SCOPE =
  /^[^:]*:[^:]*:\/kubepods\.slice\/(?:kubepods-[a-z]+\.slice\/)?kubepods-(?:[a-z]+-)?pod[0-9a-f]{32}\.slice\/(cri-containerd-[0-9a-f]+\.scope)$/m;
/** Time for a stopping API server to complete its requests. */
const DRAIN_MS = 3_000;
const KILL_MS = 10_000;

/** Static pods that run with other keys than the keys on disk. */
export interface StaticPodState {
  /** Static pods that do not run with the keys on disk yet. */
  readonly stale: readonly StaticPod[];
  /** systemd scopes of API servers that run with other keys. */
  readonly oldApiServers: readonly string[];
}

/**
 * Reads from /proc which static pods run with the keys on disk. A readiness probe cannot tell, because the
 * API server that answers may be the old one that the kubelet is about to stop.
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
 * Terminates stopping API servers that accept no more connections. Such an API server waits for its watches,
 * which do not end by themselves, until the kubelet kills it after 30 s. The next API server starts only
 * then. A second signal terminates an API server at once (k8s.io/apiserver/pkg/server/signal.go).
 */
export class ApiServerDrain {
  readonly #ports: Pick<SystemPorts, 'commands' | 'clock'>;
  readonly #terminated = new Set<string>();
  #refusesSinceMs: number | undefined;

  constructor(ports: Pick<SystemPorts, 'commands' | 'clock'>) {
    this.#ports = ports;
  }

  /** @param probe rejects with ECONNREFUSED if no server listens */
  async check(
    { oldApiServers }: StaticPodState,
    probe: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const nowMs = this.#ports.clock.monotonicMs();
    const refuses = oldApiServers.length > 0 && (await isRefused(probe));
    this.#refusesSinceMs = refuses ? (this.#refusesSinceMs ?? nowMs) : undefined;
    if (this.#refusesSinceMs === undefined || nowMs - this.#refusesSinceMs < DRAIN_MS) return;
    for (const scope of oldApiServers.filter((each) => !this.#terminated.has(each))) {
      this.#terminated.add(scope);
      await this.#terminate(scope, signal);
    }
  }

  async #terminate(scope: string, signal: AbortSignal): Promise<void> {
    const { commands } = this.#ports;
    try {
      const argv = ['systemctl', 'kill', '--signal=TERM', scope] as const;
      await commands.run({ argv: [...argv], timeoutMs: KILL_MS, signal });
    } catch {
      signal.throwIfAborted(); // the process has exited, or the kubelet kills it later
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

/** Reads a file of a process; returns an empty text if the process has exited in the meantime. */
async function textOf(files: FilePort, path: string): Promise<string> {
  try {
    return (await readText(files, path)) ?? '';
  } catch {
    return '';
  }
}
