import type { Command } from 'commander';
import { MEASURED_VARIANTS } from '../../internal/attestation/index.ts';
import type { ActionBinder } from '../app/command.ts';
import type { ExplainOptions } from '../attest/index.ts';
import { collect, SKIP_PROMPT } from './flags.ts';

const useCases = () => import('../attest/index.ts');
const clusterUseCases = () => import('../collateral/index.ts');

/** `cluster attest …`: evidence, reference values and collateral; only `approve`, `upload` and `show` need a cluster. */
export function register(attest: Command, action: ActionBinder): void {
  registerExplain(attest, action);
  attest
    .command('measure')
    .description('print the PCRs of this machine as reference values')
    .option('--tpm <path>', 'TPM device or socket', '/dev/tpmrm0')
    .addHelpText('after', '\nRun this command on a machine that you trust: its values become the reference.')
    .action(
      action<{ readonly tpm: string }>(async (context, { tpm }) =>
        (await useCases()).runAttestMeasure(context, { tpm }),
      ),
    );
  registerApprove(attest, action);
  const collateral = attest
    .command('collateral')
    .description('show the age of AMD and Intel collateral, or combine it into a bundle')
    .argument('<file...>', 'certificates, CRLs, TCB info, QE identity, quote collateral or a bundle')
    .option('--out <file>', 'write the bundle to this file')
    .action(
      action<{ readonly out?: string }>(async (context, { out }, ...files) =>
        (await useCases()).runAttestCollateral(context, { files: files.flat(), out }),
      ),
    );
  registerRefresh(collateral, action);
  registerClusterCollateral(collateral, action);
}

interface ApproveFlags {
  readonly registers?: readonly string[];
  readonly dryRun?: true;
  readonly yes?: true;
}

function registerApprove(attest: Command, action: ActionBinder): void {
  attest
    .command('approve')
    .description('approve the registers of new firmware or a new image for the state disk of a node')
    .argument('<node>', 'name or ID of the node')
    .option(
      '--registers <file>',
      'registers of software that the machine will start; repeatable (default: only what runs now)',
      collect,
    )
    .option('--dry-run', 'show what would be approved, and change nothing')
    .option('--yes', SKIP_PROMPT)
    .addHelpText(
      'after',
      `
Run this before the update: the state disk then opens with the software that
runs now and with that of the files, and with nothing else. Registers that a
file does not have are expected to stay as they are. The node tests the
approval with its TPM before it takes it.

After the update, run it again without files: the old software no longer opens
the disk.

Example:
  cluster image build --provisioning n2.json --out new
  cluster attest approve n2 --registers new/reference-values.json`,
    )
    .action(
      action<ApproveFlags>(async (context, { registers = [], dryRun = false, yes = false }, name = '') => {
        const { runApproveDisk } = await import('../nodes/index.ts');
        return runApproveDisk(context, name, { registers, dryRun, yes });
      }),
    );
}

interface RefreshFlags {
  readonly fmspc?: readonly string[];
  readonly product?: readonly string[];
  readonly amdKds: string;
  readonly intelPcs: string;
  readonly intelCertificates: string;
}

function registerRefresh(collateral: Command, action: ActionBinder): void {
  collateral
    .command('refresh')
    .description('download current collateral from AMD and Intel into the workspace')
    .option('--fmspc <hex...>', 'Intel platforms: FMSPC of the PCK certificate, 6 bytes each')
    .option('--product <name...>', 'AMD products: Milan, Genoa, Turin')
    .option('--amd-kds <url>', 'AMD key distribution service', 'https://kdsintf.amd.com')
    .option(
      '--intel-pcs <url>',
      'Intel provisioning certification service',
      'https://api.trustedservices.intel.com',
    )
    .option(
      '--intel-certificates <url>',
      'server with the CRL of the Intel root CA',
      'https://certificates.trustedservices.intel.com',
    )
    .action(
      action<RefreshFlags>(async (context, { fmspc = [], product = [], ...services }) =>
        (await useCases()).runCollateralRefresh(context, { fmspc, product, services }),
      ),
    );
}

function registerClusterCollateral(collateral: Command, action: ActionBinder): void {
  collateral
    .command('upload')
    .alias('hand-on') // its name in earlier releases
    .description('upload the workspace’s collateral to the cluster, which then uses it')
    .action(action(async (context) => (await clusterUseCases()).runCollateralUpload(context)));
  collateral
    .command('show')
    .description('show the collateral the cluster uses, its age and who uploaded it')
    .action(action(async (context) => (await clusterUseCases()).runCollateralShow(context)));
}

function registerExplain(attest: Command, action: ActionBinder): void {
  attest
    .command('explain')
    .description('decode and verify evidence, field by field')
    .argument('<evidence>', 'SNP report, TDX quote, TPM quote or evidence document')
    .requiredOption('--variant <name>', `what the evidence is: ${MEASURED_VARIANTS.join(', ')}`)
    .option(
      '--endorsements <file...>',
      'chip certificates; for a raw TPM quote: signature, key, PCR values and event log',
    )
    .option(
      '--collateral <file...>',
      'except for tpm: CRLs, TCB info, QE identity, quote collateral or a bundle',
    )
    .option('--policy <file>', 'attestation policy (default: check authenticity only)')
    .option('--binding <hex>', 'expected report data (default: replays are not detected)')
    .option('--at <time>', 'verify as of this time, such as 2026-01-31T12:00:00Z')
    .addHelpText('after', '\nExit code: 0 if the evidence is accepted, 4 if it is refused.')
    .action(
      action<Omit<ExplainOptions, 'evidence'>>(async (context, flags, evidence = '') =>
        (await useCases()).runAttestExplain(context, { ...flags, evidence }),
      ),
    );
}
