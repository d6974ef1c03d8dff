import { readText, type FilePort } from '../file/index.ts';

/**
 * Bytes of memory that programs can still use without swapping (`MemAvailable`, proc_meminfo(5)); undefined on a system that does
 * not tell.
 */
export async function readAvailableMemory(files: Pick<FilePort, 'read'>): Promise<number | undefined> {
  const text = (await readText(files, '/proc/meminfo')) ?? '';
  const kib = /^MemAvailable:\s+(\d{1,12}) kB$/m.exec(text)?.[1];
  return kib === undefined ? undefined : Number(kib) * 1024;
}
