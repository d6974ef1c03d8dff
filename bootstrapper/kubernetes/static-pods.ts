import type { FilePort } from '../../internal/file/index.ts';
import { KEYS_VARIABLE } from './kubeadm-config.ts';
import { STATIC_PODS, type SharedKeys, type StaticPod } from './shared-keys.ts';

const MAX_BYTES = 256 * 1024;
/** What the kernel keeps of a program's name. */
const COMM_CHARS = 15;

/**
 * The static pods that don't run with the keys on disk yet. Asked of the kernel: an API server that answers may be the one
 * that the kubelet is about to stop.
 */
export async function stalePods(files: FilePort, { digests }: SharedKeys): Promise<readonly StaticPod[]> {
  const wanted = STATIC_PODS.filter((pod) => digests?.[pod] !== undefined);
  if (wanted.length === 0) return [];
  const running = new Set<string>();
  const pids = (await files.list('/proc')).filter((name) => /^[0-9]+$/.test(name));
  for (const pid of pids) {
    const program = (await textOf(files, `/proc/${pid}/comm`)).trim();
    const pod = wanted.find((name) => name.slice(0, COMM_CHARS) === program);
    if (pod === undefined) continue;
    const variables = (await textOf(files, `/proc/${pid}/environ`)).split('\0');
    if (variables.includes(`${KEYS_VARIABLE}=${digests?.[pod]}`)) running.add(pod);
  }
  return wanted.filter((pod) => !running.has(pod));
}

/** A process that has ended meanwhile says nothing. */
async function textOf(files: FilePort, path: string): Promise<string> {
  try {
    return Buffer.from((await files.read(path, MAX_BYTES)) ?? []).toString('utf8');
  } catch {
    return '';
  }
}
