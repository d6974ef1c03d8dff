import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import type { DoctorOptions } from '../doctor/index.ts';
import { fromNowOption } from './flags.ts';

/** `cluster doctor`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('[node...]', 'only these nodes, and the cluster as a whole (default: all)')
    .option('--save-facts <file>', 'also write the collected facts to this file')
    .addOption(
      fromNowOption(
        '--at <duration>',
        'show what ends within this time, such as 400d, instead of the findings',
      ),
    )
    .option('--watch', 'check every 30s and show the problems, until interrupted')
    .option('--facts <file>', 'check the facts in this file instead of the cluster')
    .addHelpText(
      'after',
      `
Prints every check with its figure and threshold, then the problems, likely
causes first. What could not be measured is "unknown", never good. Nothing in
the cluster is changed. docs/doctor.md lists all checks. With --watch, output
that is no terminal gets a result when a problem appears or ends.

Exit codes: 0 when everything is good, 11 with warnings or unknowns, 10 with
errors. With --at: 0 when everything that ends renews itself, else 11.

Examples:
  cluster doctor
  cluster doctor --at +400d
  cluster doctor --watch
  cluster doctor n2 --save-facts facts.json
  cluster doctor --facts facts.json`,
    )
    .action(
      action<DoctorOptions>(async (context, options, ...nodes) => {
        const { runDoctor, watchDoctor } = await import('../doctor/index.ts');
        return (options.watch === true ? watchDoctor : runDoctor)(context, options, nodes);
      }),
    );
}
