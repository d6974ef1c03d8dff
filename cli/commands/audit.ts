import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { wholeNumber } from './numbers.ts';

interface ListFlags {
  readonly caller?: string;
  readonly method?: string;
  readonly subject?: string;
  readonly last?: number;
}

/** `cluster audit …`. */
export function register(program: Command, action: ActionBinder): void {
  const audit = program.command('audit').description('every decision of the cluster: who, what, about whom');
  audit
    .command('ls')
    .description('decisions, verified against what was seen before')
    .option('--caller <text>', 'only by callers that contain this, like operator:owner')
    .option('--method <name>', 'only of this kind, like DecideJoin')
    .option('--subject <text>', 'only about subjects that contain this')
    .option('--last <n>', 'the newest only', wholeNumber(1, 1_000_000))
    .addHelpText('after', '\nExample: cluster audit ls --method DecideJoin --last 20')
    .action(
      action<ListFlags>(async (context, { last, ...filter }) =>
        (await import('../nodes/index.ts')).runAuditList(context, { ...filter, last }),
      ),
    );
  audit
    .command('export')
    .description('write the whole chain to a file that can be verified without the cluster')
    .argument('<file>')
    .action(
      action<object>(async (context, _flags, file = '') =>
        (await import('../nodes/index.ts')).runAuditExport(context, file),
      ),
    );
  audit
    .command('verify')
    .description('prove that the chain, or an export of it, is whole and goes on from every checkpoint here')
    .argument('[file]', 'an export; the cluster itself unless said')
    .action(
      action<object>(async (context, _flags, file) =>
        (await import('../nodes/index.ts')).runAuditVerify(context, file),
      ),
    );
}
