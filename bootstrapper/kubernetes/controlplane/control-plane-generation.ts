import { randomUUID } from 'node:crypto';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

const UUID = /^[0-9a-f-]{36}$/;

/**
 * Reads the control-plane generation: an id that changes with each demotion, or undefined before the first
 * demotion. Static pods have the id in an environment variable. Without it, a node that is promoted again
 * would write the same manifest as before its demotion. The kubelet would then treat the pod as crashed and
 * delay it by up to 5 min (CrashLoopBackOff).
 */
export async function readControlPlaneGeneration(files: FilePort): Promise<string | undefined> {
  const text = await readText(files, PATHS.controlPlaneGeneration);
  return text !== undefined && UUID.test(text) ? text : undefined;
}

/** Ends the current generation, so that the next promotion gets another id. */
export async function endControlPlaneGeneration(files: FilePort): Promise<void> {
  await files.writeAtomic(PATHS.controlPlaneGeneration, randomUUID());
}
