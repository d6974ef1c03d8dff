/** Port: files. Whole, synced, atomic; errno translated once. The only door to `node:fs`. */
export type { AppendPort } from './append.ts';
export { openDevice, type DeviceHandle } from './device.ts';
export { DiskFiles } from './disk-files.ts';
export { FileError, fileErrors, type FileErrorCode } from './errors.ts';
export type { FilePort, FileStat, WriteOptions } from './file-port.ts';
export { KernelFiles, type KernelFilePort } from './kernel-files.ts';
export { DiskStreams, type StreamPort } from './disk-streams.ts';
