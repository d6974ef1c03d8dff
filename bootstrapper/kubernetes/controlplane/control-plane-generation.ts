import { randomUUID } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

const MAX_BYTES = 64;
const UUID = /^[0-9a-f-]{36}$/;

/**
 * Which time as a control plane this is; undefined for the first. Static pods carry it: by the same manifest as an earlier
 * one the kubelet takes a pod for that very pod, its end for a crash, and lets it wait, five minutes in the end, before it
 * starts it again (kubelet, CrashLoopBackOff).
 */
export async function readControlPlaneGeneration(files: FilePort): Promise<string | undefined> {
  const text = Buffer.from((await files.read(PATHS.controlPlaneGeneration, MAX_BYTES)) ?? []).toString(
    'utf8',
  );
  return UUID.test(text) ? text : undefined;
}

/** The next time will be another one. */
export async function endControlPlaneGeneration(files: FilePort): Promise<void> {
  await files.writeAtomic(PATHS.controlPlaneGeneration, randomUUID());
}
