import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { constants, createZstdCompress } from 'node:zlib';
import { MAX_PROVISIONING_BYTES, parseProvisioning } from '../../internal/config/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import {
  createDisk,
  createRootTree,
  createUki,
  ImageError,
  imageFiles,
  osRelease,
  pinnedPackages,
  predictRegisters,
  PROVISIONING_CREDENTIAL,
  withFirmware,
  writeCpio,
  type CpioEntry,
  type DiskImage,
  type UkiParts,
} from '../../internal/image/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes } from '../host/index.ts';
import { findAgentPackage, packageDirectories } from '../mini/index.ts';
import { readFirmwareValues } from './firmware-values.ts';
import { fetchPackages } from './fetch-packages.ts';
import { imageBom } from './image-bom.ts';
import { indexModules, readFile, readPackageFiles, unpackPackages } from './unpack-packages.ts';

/** Options of `cluster image build`. */
export interface ImageBuildOptions {
  /** The provisioning file that machines with this image have. */
  readonly provisioning: string;
  /** Directory for the files of the image; created if needed. */
  readonly out: string;
  /** The agent's Debian package; undefined: the newest build. */
  readonly agent: string | undefined;
  /** A directory with the pinned packages; undefined: the package sources of this machine. */
  readonly packages: string | undefined;
  /** A file with the registers of the firmware; undefined: only those of the image are written. */
  readonly firmware: string | undefined;
  /** Size of the state partition, in MiB. */
  readonly stateSizeMib: number;
}

/**
 * `panic` restarts a machine that cannot continue. `lockdown` keeps root from changing the kernel that was measured. No console
 * asks for a login.
 */
const COMMAND_LINE =
  'console=tty0 console=ttyS0,115200 panic=30 lockdown=integrity systemd.getty_auto=0 systemd.show_status=0 quiet';
const STUB = 'usr/lib/systemd/boot/efi/linuxx64.efi.stub';
const AGENT = 'cluster-agent';
const AGENT_BOM = `usr/share/doc/${AGENT}/sbom.cdx.json`;
const COMPRESSION_LEVEL = 9;
const MIB = 2 ** 20;
const PUBLIC = 0o644;

/**
 * `cluster image build`: writes a disk image, the EFI program in it, and the reference values of both. Changes nothing but the
 * directory `out` and the cache. The same arguments give the same bytes. @throws ImageError
 */
export async function runImageBuild(context: CommandContext, options: ImageBuildOptions): Promise<void> {
  const { host, ports } = context;
  const out = resolve(options.out);
  const provisioning = await readProvisioning(context, options.provisioning);
  const firmware = await readFirmwareValues(context, options.firmware);
  const agent = await findAgentPackage(context, {
    path: options.agent,
    architecture: 'amd64',
    directories: packageDirectories(import.meta.dirname),
  });
  await requireAgent(context, agent);
  await ports.files.makeDirectory(out, 0o755);
  const work = join(out, 'work');
  await ports.files.remove(work); // files of an interrupted run
  try {
    const packages = await host.step('image-packages', 'Fetching packages', () =>
      fetchPackages(context, { lock: pinnedPackages(), directory: options.packages }),
    );
    const parts = await host.step('image-initrd', 'Packing the root directory', () =>
      createParts(context, new Map([...packages, [AGENT, agent]]), work),
    );
    const image = assemble(parts, provisioning, options.stateSizeMib * MIB);
    const registers = withFirmware(image.registers, firmware);
    const agentBom = await readFile(context, join(work, AGENT, AGENT_BOM));
    const content = { uki: image.uki, packages: pinnedPackages().packages, agentBom, version: VERSION };
    const bom = imageBom(content);
    await host.step('image-write', 'Writing the image', () =>
      writeImage(context, { ...image, registers, bom, out, work }),
    );
    report(context, { ...image, registers, out });
  } finally {
    await ports.files.remove(work);
  }
}

interface Image {
  readonly uki: Uint8Array;
  readonly disk: DiskImage;
  readonly registers: ReadonlyMap<number, Uint8Array>;
}

function assemble(parts: UkiParts, provisioning: Uint8Array, stateBytes: number): Image {
  const uki = createUki(parts);
  const files = [
    { path: 'EFI/BOOT/BOOTX64.EFI', content: uki },
    { path: `loader/credentials/${PROVISIONING_CREDENTIAL}`, content: provisioning },
  ];
  const disk = createDisk(files, stateBytes);
  const registers = predictRegisters({
    uki,
    parts,
    credentials: new Map([[PROVISIONING_CREDENTIAL, provisioning]]),
    partitionTable: disk.measuredTable,
  });
  return { uki, disk, registers };
}

/** Each file gets its name when it is complete. */
async function writeImage(
  context: CommandContext,
  image: Image & { readonly bom: string; readonly out: string; readonly work: string },
): Promise<void> {
  const { files } = context.ports;
  const { uki, disk, registers, bom, out, work } = image;
  const partial = join(work, 'disk.raw');
  await writeDisk(context, partial, disk);
  await new DiskStreams().publish(partial, join(out, 'disk.raw'), PUBLIC);
  await files.writeAtomic(join(out, 'boot.efi'), uki, { mode: PUBLIC });
  const values = `${JSON.stringify({ registers: registersByName(registers) }, undefined, 2)}\n`;
  await files.writeAtomic(join(out, 'reference-values.json'), values, { mode: PUBLIC });
  await files.writeAtomic(join(out, 'sbom.cdx.json'), bom, { mode: PUBLIC });
}

function report({ host }: CommandContext, image: Image & { readonly out: string }): void {
  const { uki, disk, registers, out } = image;
  const bootSha256 = createHash('sha256').update(uki).digest('hex');
  host.result({ directory: out, bootSha256, registers: registersByName(registers) }, () =>
    [
      `Wrote ${out}:`,
      `  disk.raw               ${formatBytes(disk.sizeBytes)}`,
      `  boot.efi               ${formatBytes(uki.length)}, sha256 ${bootSha256}`,
      `  reference-values.json  registers ${[...registers.keys()].join(', ')}`,
      '  sbom.cdx.json          the software in it',
    ].join('\n'),
  );
}

async function readProvisioning(context: CommandContext, path: string): Promise<Uint8Array> {
  const bytes = await context.ports.files.read(resolve(path), MAX_PROVISIONING_BYTES);
  if (bytes === undefined) throw new ImageError('image-option', `provisioning file ${path} not found`);
  parseProvisioning(Buffer.from(bytes).toString('utf8'), path);
  return bytes;
}

/** Refuses another file than the agent's package, before 100 MB of packages are downloaded. @throws ImageError `image-option` */
async function requireAgent({ ports, signal }: CommandContext, path: string): Promise<void> {
  const argv = ['dpkg-deb', '--field', path, 'Package'] as const;
  const { stdout } = await ports.commands.run({ argv, signal }).catch((cause: unknown) => {
    if (findCoded(cause)?.code !== 'exec-failed') throw cause;
    throw new ImageError('image-option', `agent package ${path}: not a Debian package`, { cause });
  });
  const name = stdout.trim();
  if (name !== AGENT)
    throw new ImageError('image-option', `agent package ${path}: it has ${printable(name)}, not ${AGENT}`);
}

async function createParts(
  context: CommandContext,
  packages: ReadonlyMap<string, string>,
  work: string,
): Promise<UkiParts> {
  const names = [...packages.keys()];
  await unpackPackages(context, packages, work);
  const release = await indexModules(context, work, names);
  const unpacked = [];
  for (const name of names) unpacked.push(await readPackageFiles(context, work, name));
  return {
    stub: await readFile(context, join(work, 'systemd-boot-efi', STUB)),
    kernel: await readFile(context, join(work, `linux-image-${release}`, 'boot', `vmlinuz-${release}`)),
    initrd: await compress(createRootTree(unpacked, imageFiles(unpacked, VERSION))),
    commandLine: COMMAND_LINE,
    osRelease: osRelease(VERSION),
  };
}

async function compress(entries: readonly CpioEntry[]): Promise<Uint8Array> {
  const zstd = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL } });
  return Buffer.concat(await Array.fromAsync(Readable.from(writeCpio(entries)).pipe(zstd)));
}

/** Writes only what is not zero: the file is sparse. */
async function writeDisk(context: CommandContext, path: string, disk: DiskImage): Promise<void> {
  const streams = new DiskStreams();
  for (const { offset, bytes } of disk.extents) {
    context.signal.throwIfAborted();
    await streams.writeAt(path, offset, bytes);
  }
}

/** In the form of `registers` in an attestation policy. */
function registersByName(
  registers: ReadonlyMap<number, Uint8Array>,
): Readonly<Record<string, { readonly expected: string }>> {
  return Object.fromEntries(
    [...registers].map(([pcr, value]) => [`pcr${pcr}`, { expected: Buffer.from(value).toString('hex') }]),
  );
}
