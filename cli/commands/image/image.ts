import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import { wholeNumber } from '../flags.ts';

interface BuildFlags {
  readonly provisioning: string;
  readonly out: string;
  readonly agent?: string;
  readonly packages?: string;
  readonly firmware?: string;
  readonly stateSize: number;
}

/** `cluster image …`. */
export function register(image: Command, action: ActionBinder): void {
  image
    .command('build')
    .description('build a bootable disk from pinned Debian packages, with its reference values')
    .requiredOption('--provisioning <file>', 'provisioning file of the machines that get this image')
    .requiredOption('--out <directory>', 'directory to write')
    .option('--agent <file>', 'Debian package of the agent (default: the newest build)')
    .option('--packages <directory>', 'directory with the pinned packages (default: the sources of apt)')
    .option('--firmware <file>', 'registers of the firmware, as `cluster attest measure -o json` prints them')
    .option('--state-size <MiB>', 'size of the state partition', wholeNumber(64, 16_777_216), 8192)
    .addHelpText(
      'after',
      `
Writes disk.raw, boot.efi, reference-values.json and sbom.cdx.json (software bill of
materials). The same packages, agent and provisioning file give the same bytes. The whole system is in boot.efi, which the
firmware measures before it starts. There is no shell, and no login.

reference-values.json has the registers that follow from the image. --firmware adds
the registers of the firmware: 0 to 3, 6, 7, and 10, which depends on them.

Example:
  cluster image build --provisioning provisioning.json --out image`,
    )
    .action(
      action<BuildFlags>(async (context, { provisioning, out, agent, packages, firmware, stateSize }) =>
        (await import('../../image/index.ts')).runImageBuild(context, {
          provisioning,
          out,
          agent,
          packages,
          firmware,
          stateSizeMib: stateSize,
        }),
      ),
    );
}
