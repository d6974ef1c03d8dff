import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { constants, createZstdCompress } from 'node:zlib';
import { MAX_PROVISIONING_BYTES, parseProvisioning } from '../../internal/config/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import {
  bootEntryRelease,
  createRootTree,
  fetchPackages,
  ImageError,
  imageFiles,
  indexModules,
  kernelOf,
  pinnedPackages,
  readFile,
  readPackageFiles,
  removeUnusedModules,
  unpackPackages,
  writeCpio,
  type CpioEntry,
  type Hardware,
} from '../../internal/image/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import { findAgentPackage, packageDirectories } from '../mini/index.ts';
import { assembleImage, type ImageFormat, type ImageParts } from './assemble-image.ts';
import { readFirmwareValues } from './firmware-values.ts';
import { imageBom } from './image-bom.ts';
import { reportImage, writeImage } from './write-image.ts';

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
  /** The machines for which the image has drivers. */
  readonly hardware: Hardware;
  readonly formats: readonly ImageFormat[];
}

/**
 * `panic` restarts a machine that cannot continue. `lockdown` keeps root from changing the kernel that was measured. No console
 * asks for a login. An emulated machine on a busy host fails the check of its timer, and would panic (`no_timer_check`); under KVM
 * the kernel leaves the check out by itself.
 */
const COMMAND_LINE =
  'console=tty0 console=ttyS0,115200 panic=30 no_timer_check lockdown=integrity systemd.getty_auto=0 systemd.show_status=0 quiet';
const BOOT_PROGRAMS = 'systemd-boot-efi/usr/lib/systemd/boot/efi';
const AGENT = 'cluster-agent';
const AGENT_BOM = `usr/share/doc/${AGENT}/sbom.cdx.json`;
const COMPRESSION_LEVEL = 9;
const MIB = 2 ** 20;

/** A directory below the output. Nobody else has one with this name, since it is removed. */
const WORK = '.cluster-image-build';

/**
 * `cluster image build`: writes an image in each format, the EFI program in it, and the reference values of both. Changes nothing but the
 * directory `out` and the cache. The same arguments give the same bytes. @throws ImageError
 */
export async function runImageBuild(context: CommandContext, options: ImageBuildOptions): Promise<void> {
  const { host, ports } = context;
  const lock = pinnedPackages(options.hardware);
  const out = resolve(options.out);
  const provisioning = await readProvisioning(context, options.provisioning);
  const firmware = await readFirmwareValues(context, options.firmware);
  const agent = await findAgent(context, options.agent);
  await ports.files.makeDirectory(out, 0o755);
  const work = join(out, WORK);
  await ports.files.remove(work); // files of an interrupted run
  try {
    const parts = await prepareParts(context, {
      agent,
      hardware: options.hardware,
      packages: options.packages,
      work,
    });
    const image = assembleImage(parts, {
      ...{ formats: options.formats, provisioning, firmware },
      stateBytes: options.stateSizeMib * MIB,
    });
    const agentBom = await readFile(context, join(work, AGENT, AGENT_BOM));
    const content = { uki: image.uki, packages: lock.packages, agentBom, version: VERSION };
    const output = { ...image, bom: imageBom(content), out, work };
    await host.step('image-write', 'Writing the image', () => writeImage(context, output));
    reportImage(context, output);
  } finally {
    await ports.files.remove(work);
  }
}

/** The agent package for an image. @param path undefined: the newest build. @throws ImageError, MiniError */
export async function findAgent(context: CommandContext, path: string | undefined): Promise<string> {
  const agent = await findAgentPackage(context, {
    path,
    architecture: 'amd64',
    directories: packageDirectories(import.meta.dirname),
  });
  await requireAgent(context, agent);
  return agent;
}

/** Makes the parts of an image from the pinned packages and the agent's. Unpacks them below `work`, which the caller removes. @throws ImageError */
export async function prepareParts(
  context: CommandContext,
  {
    agent,
    hardware,
    packages: directory,
    work,
  }: {
    readonly agent: string;
    readonly hardware: Hardware;
    readonly packages: string | undefined;
    readonly work: string;
  },
): Promise<ImageParts> {
  const { host } = context;
  const packages = await host.step('image-packages', 'Fetching packages', () =>
    fetchPackages(context, { lock: pinnedPackages(hardware), directory }),
  );
  return host.step('image-initrd', 'Packing the root directory', () =>
    createParts(context, { packages: new Map([...packages, [AGENT, agent]]), hardware }, work),
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
  { packages, hardware }: { readonly packages: ReadonlyMap<string, string>; readonly hardware: Hardware },
  work: string,
): Promise<ImageParts> {
  const names = [...packages.keys()];
  await unpackPackages(context, packages, work);
  await indexModules(context, work, names);
  if (hardware === 'server') {
    await removeUnusedModules(context, work, names);
    await indexModules(context, work, names);
  }
  const kernel = kernelOf(names);
  const unpacked = [];
  for (const name of names) unpacked.push(await readPackageFiles(context, work, name));
  return {
    loader: await readFile(context, join(work, BOOT_PROGRAMS, 'systemd-bootx64.efi')),
    stub: await readFile(context, join(work, BOOT_PROGRAMS, 'linuxx64.efi.stub')),
    kernel: await readFile(context, join(work, kernel.name, 'boot', `vmlinuz-${kernel.release}`)),
    initrd: await compress(createRootTree(unpacked, imageFiles(unpacked, VERSION))),
    commandLine: COMMAND_LINE,
    osRelease: bootEntryRelease(VERSION),
  };
}

async function compress(entries: readonly CpioEntry[]): Promise<Uint8Array> {
  const zstd = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL } });
  return Buffer.concat(await Array.fromAsync(Readable.from(writeCpio(entries)).pipe(zstd)));
}
