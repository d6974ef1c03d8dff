import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import type { AuditListOptions } from '../audit/index.ts';
import { wholeNumber } from './flags.ts';

const useCases = () => import('../audit/index.ts');

/** `cluster audit …`. */
export function register(audit: Command, action: ActionBinder): void {
  audit
    .command('ls')
    .description('list entries of the audit log; the log is verified first')
    .option('--caller <text>', 'only callers that contain this text, such as operator:ann')
    .option('--method <name>', 'only this method, such as DecideJoin')
    .option('--subject <text>', 'only subjects that contain this text')
    .option('--last <n>', 'only the newest n entries', wholeNumber(1, 1_000_000))
    .addHelpText('after', '\nExample:\n  cluster audit ls --method DecideJoin --last 20')
    .action(
      action<AuditListOptions>(async (context, options) => (await useCases()).runAuditList(context, options)),
    );
  audit
    .command('export')
    .description('write the audit log to a file that can be verified offline')
    .argument('<file>', 'file to write')
    .action(action(async (context, _flags, file = '') => (await useCases()).runAuditExport(context, file)));
  audit
    .command('verify')
    .description('verify that the audit log is complete and extends all known checkpoints')
    .argument('[file]', 'exported audit log (default: the log of the cluster)')
    .action(action(async (context, _flags, file) => (await useCases()).runAuditVerify(context, file)));
}
