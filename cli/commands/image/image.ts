import { Option, type Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { Hardware } from '../../../internal/image/index.ts';
import type { ImageFormat } from '../../image/index.ts';
import { listOf, wholeNumber } from '../flags.ts';

const FORMATS = ['raw', 'qcow2', 'iso', 'netboot'] as const satisfies readonly ImageFormat[];
const HARDWARE = ['virtual', 'server'] as const satisfies readonly Hardware[];

interface BuildFlags {
  readonly provisioning: string;
  readonly out: string;
  readonly agent?: string;
  readonly packages?: string;
  readonly firmware?: string;
  readonly stateSize: number;
  readonly hardware: Hardware;
  readonly format: readonly ImageFormat[];
}

/** `cluster image …`. */
export function register(image: Command, action: ActionBinder): void {
  image
    .command('build')
    .description('build a bootable disk from pinned Debian packages, with its reference values')
    .requiredOption('--provisioning <file>', 'provisioning file of the machines that get this image')
    .requiredOption('--out <directory>', 'directory to write')
    .option('--format <list>', `what to write, like raw,qcow2 (${FORMATS.join(', ')})`, listOf(FORMATS), [
      'raw',
    ])
    .addOption(
      new Option('--hardware <kind>', 'machines for which the image has drivers')
        .choices(HARDWARE)
        .default('virtual'),
    )
    .option('--agent <file>', 'Debian package of the agent (default: the newest build)')
    .option('--packages <directory>', 'directory with the pinned packages (default: the sources of apt)')
    .option('--firmware <file>', 'registers of the firmware, as `cluster attest measure -o json` prints them')
    .option('--state-size <MiB>', 'size of the state partition', wholeNumber(64, 16_777_216), 8192)
    .addHelpText(
      'after',
      `
Writes the image in each format, boot.efi, reference values and sbom.cdx.json
(software bill of materials):
  raw      disk.raw     a whole disk: for a disk, USB stick or virtual machine
  qcow2    disk.qcow2   the same disk for QEMU and OpenStack
  iso      boot.iso     a CD for the virtual media of a server; has no state
                        partition
  netboot  netboot.efi  one program for PXE and HTTP boot; has no state
                        partition
With \`--hardware server\` the image also starts on servers: it has drivers of
their disks, network cards and other devices, and needs more memory.

The same packages, agent and provisioning file give the same bytes. The whole
system is in boot.efi, which the firmware measures before it starts. There is
no shell, and no login.

reference-values.json (disk), reference-values-iso.json and
reference-values-netboot.json have the registers that follow from the image.
--firmware adds the registers of the firmware: 0 to 3, 6, 7, and 10, which
depends on them.

Example:
  cluster image build --provisioning provisioning.json --out image`,
    )
    .action(
      action<BuildFlags>(async (context, { stateSize, format, hardware, ...flags }) =>
        (await import('../../image/index.ts')).runImageBuild(context, {
          provisioning: flags.provisioning,
          out: flags.out,
          agent: flags.agent,
          packages: flags.packages,
          firmware: flags.firmware,
          stateSizeMib: stateSize,
          formats: format,
          hardware,
        }),
      ),
    );
}
