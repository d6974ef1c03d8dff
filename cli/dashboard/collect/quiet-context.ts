import type { CommandContext } from '../../app/command.ts';

/**
 * The context for reading while the dashboard has the terminal: messages of a call would be written across it, and no question can
 * be asked. An error of a call is shown with its source.
 */
export function quietContext(context: CommandContext, signal: AbortSignal): CommandContext {
  const nothing = (): void => undefined;
  return {
    ...context,
    signal,
    host: {
      interactive: false,
      isWide: false,
      wantsData: false,
      bytes: undefined,
      ...{ say: nothing, warn: nothing, result: nothing, list: nothing, beginScreen: nothing },
      openFullScreen: () => undefined,
      step: (_code, _title, work) => work({ update: nothing }),
      confirm: async (_question, defaultAnswer) => defaultAnswer,
      askSecrets: async () => undefined,
      askLines: async () => false,
    },
  };
}
