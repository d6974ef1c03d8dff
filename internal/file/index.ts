/**
 * Files (a replaceable interface). A write is either complete and durable, or did not happen. This directory turns errno into a
 * `FileError`. Apart from tests, scripts and each `main.ts`, no other code may import `node:fs`. There is no function for
 * the parent directory of a path: use `dirname` of `node:path`.
 */
export { keepCompiledCode, type CodeCacheOptions } from './code-cache.ts';
export { readDescriptor } from './descriptor.ts';
export { openDevice, type DeviceHandle } from './device.ts';
export { DiskFiles } from './disk-files.ts';
export { DiskStreams, type FileSystem, type StreamPort } from './disk-streams.ts';
export { FileError } from './errors.ts';
export type {
  AppendPort,
  FilePort,
  FileStat,
  ListOptions,
  OutputPort,
  WriteOptions,
  WriteTarget,
} from './file-port.ts';
export { KernelFiles, type KernelFilePort } from './kernel-files.ts';
export { readTail } from './read-tail.ts';
export { parseJson, readJson, readText } from './read-text.ts';
