import type { Secret } from '../../internal/secret/index.ts';

/** The answers of a host that cannot ask anybody: the default to each question, no secret and no lines. */
export class NoPrompts {
  confirm(_question: string, defaultAnswer: boolean): Promise<boolean> {
    return Promise.resolve(defaultAnswer);
  }

  askSecrets(_questions: readonly string[]): Promise<readonly Secret<string>[] | undefined> {
    return Promise.resolve(undefined);
  }

  askLines(_question: string, _take: (line: string) => boolean): Promise<boolean> {
    return Promise.resolve(false);
  }
}
