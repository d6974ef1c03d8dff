import { randomUUID } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

const MAX_BYTES = 64;
const UUID = /^[0-9a-f-]{36}$/;

/**
 * The control-plane generation: an id that changes with each demotion; undefined before the first one. Static pods carry it in
 * an environment variable. Without it, a pod after a promotion would have the manifest of the pod that the demotion stopped,
 * and the kubelet would delay it by up to 5 min as a crashed pod (CrashLoopBackOff).
 */
export async function readControlPlaneGeneration(files: FilePort): Promise<string | undefined> {
  const text = Buffer.from((await files.read(PATHS.controlPlaneGeneration, MAX_BYTES)) ?? []).toString(
    'utf8',
  );
  return UUID.test(text) ? text : undefined;
}

/** Ends the current generation: the next promotion has another id. */
export async function endControlPlaneGeneration(files: FilePort): Promise<void> {
  await files.writeAtomic(PATHS.controlPlaneGeneration, randomUUID());
}
