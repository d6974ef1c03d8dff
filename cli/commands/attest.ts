import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface ExplainFlags {
  readonly variant: string;
  readonly endorsements?: readonly string[];
  readonly collateral?: readonly string[];
  readonly policy?: string;
  readonly binding?: string;
  readonly at?: string;
}

/** `cluster attest …`: evidence, reference values and collateral; only handing collateral on needs a cluster. */
export function register(program: Command, action: ActionBinder): void {
  const attest = program.command('attest').description('look at evidence, reference values and collateral');
  registerExplain(attest, action);
  attest
    .command('measure')
    .description('print the registers of this machine as reference values; run it on a machine you trust')
    .option('--tpm <path>', 'device or socket of the TPM', '/dev/tpmrm0')
    .action(
      action<{ readonly tpm: string }>(async (context, { tpm }) =>
        (await import('../attest/index.ts')).runAttestMeasure(context, { tpm }),
      ),
    );
  const collateral = attest
    .command('collateral')
    .description('show how old collateral of AMD and Intel is, and put it into one bundle')
    .argument('<file...>', 'certificates, CRLs, TCB info, QE identity, quote collateral or a bundle')
    .option('--out <file>', 'write the bundle here')
    .action(
      action<{ readonly out?: string }>(async (context, { out }, ...files) =>
        (await import('../attest/index.ts')).runAttestCollateral(context, { files: files.flat(), out }),
      ),
    );
  registerRefresh(collateral, action);
  registerHandOn(collateral, action);
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
    .description('fetch what AMD and Intel say now, verify it, and keep it in the workspace')
    .option('--fmspc <hex...>', 'Intel platforms, 6 bytes each, as a PCK certificate names them')
    .option('--product <name...>', 'AMD products: Milan, Genoa, Turin')
    .option('--amd-kds <url>', 'AMD’s key distribution service', 'https://kdsintf.amd.com')
    .option(
      '--intel-pcs <url>',
      'Intel’s provisioning certification service',
      'https://api.trustedservices.intel.com',
    )
    .option(
      '--intel-certificates <url>',
      'where Intel’s root has its CRL',
      'https://certificates.trustedservices.intel.com',
    )
    .action(
      action<RefreshFlags>(async (context, { fmspc = [], product = [], ...services }) =>
        (await import('../attest/index.ts')).runCollateralRefresh(context, { fmspc, product, services }),
      ),
    );
}

function registerHandOn(collateral: Command, action: ActionBinder): void {
  collateral
    .command('hand-on')
    .description('give the workspace’s collateral to the cluster, which judges with it from then on')
    .action(
      action<object>(async (context) => (await import('../nodes/index.ts')).runCollateralUpload(context)),
    );
  collateral
    .command('show')
    .description('what the cluster judges with, how old it is, and who handed it on')
    .action(
      action<object>(async (context) => (await import('../nodes/index.ts')).runCollateralShow(context)),
    );
}

function registerExplain(attest: Command, action: ActionBinder): void {
  attest
    .command('explain')
    .description('decode and judge evidence, field by field; exit 0 accepted, 4 refused')
    .argument('<evidence>', 'SNP report, TDX quote, TPM quote, or a document of our own')
    .requiredOption('--variant <name>', 'tpm, sev-snp or tdx')
    .option(
      '--endorsements <file...>',
      'chip certificates; for a raw TPM quote: signature, key, PCR values, event log',
    )
    .option(
      '--collateral <file...>',
      'for sev-snp and tdx: CRLs, TCB info, QE identity, quote collateral or a bundle',
    )
    .option('--policy <file>', 'attestation policy; without it only authenticity is judged')
    .option('--binding <hex>', 'what the evidence must be bound to; without it a replay is not noticed')
    .option('--at <time>', 'judge for this time instead of now, such as 2026-01-31T12:00:00Z')
    .action(
      action<ExplainFlags>(async (context, flags, evidence = '') => {
        const { runAttestExplain } = await import('../attest/index.ts');
        const { variant, endorsements = [], collateral = [], policy, binding, at } = flags;
        return runAttestExplain(context, {
          evidence,
          variant,
          endorsements,
          collateral,
          policy,
          binding,
          at,
        });
      }),
    );
}
