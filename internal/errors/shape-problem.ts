import type { z } from 'zod';

/** What is wrong with a value, and where: `nodes.0.name`, or empty for the whole document. */
interface ShapeProblem {
  readonly path: string;
  readonly message: string;
}

type Issue = z.core.$ZodIssue;

const MAX_NAME = 60;

/**
 * The first problem of a document whose shape is wrong, for people: `takenMs: missing, expected a number`. The texts of
 * zod are for programmers.
 */
export function describeShape({ issues }: { readonly issues: readonly Issue[] }): string {
  const [issue] = issues;
  if (issue === undefined) return 'not in the expected form';
  const { path, message } = shapeProblemOf(issue);
  return path === '' ? message : `${path}: ${message}`;
}

/** The problem that an issue of zod stands for. */
export function shapeProblemOf(issue: Issue): ShapeProblem {
  const path = issue.path.map((part) => String(part).slice(0, MAX_NAME)).join('.');
  const inner = innerOf(issue);
  if (inner === undefined) return { path, message: messageOf(issue) };
  const { path: below, message } = shapeProblemOf(inner);
  return { path: [path, below].filter((part) => part !== '').join('.'), message };
}

/** Of the alternatives of a union, the one that fits best tells most: its problem lies deepest. */
function innerOf(issue: Issue): Issue | undefined {
  if (issue.code !== 'invalid_union') return undefined;
  const firsts = issue.errors.flatMap(([first]) => (first === undefined ? [] : [first]));
  return firsts.reduce<Issue | undefined>(
    (best, each) => (best === undefined || each.path.length > best.path.length ? each : best),
    undefined,
  );
}

function messageOf(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return typeMessage(issue.expected, issue.message, issue.path.length === 0);
    case 'invalid_value':
      return expectation(issue, `${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`);
    case 'too_small':
      return expectation(issue, `at least ${String(issue.minimum)}${unitOf(issue.origin)}`);
    case 'too_big':
      return expectation(issue, `at most ${String(issue.maximum)}${unitOf(issue.origin)}`);
    case 'unrecognized_keys':
      return `unknown key ${JSON.stringify(issue.keys[0]?.slice(0, MAX_NAME))}`;
    case 'invalid_format':
      return expectation(issue, issue.format === 'regex' ? 'another form' : `the form ${issue.format}`);
    default:
      return isOwn(issue.message) ? issue.message : 'not in the expected form';
  }
}

/** `undefined` as a whole document means that the text was not JSON. */
function typeMessage(expected: string, zodMessage: string, isWhole: boolean): string {
  if (!zodMessage.startsWith('Invalid input: expected')) return zodMessage;
  const found = /received (.+)$/.exec(zodMessage)?.[1] ?? 'something else';
  if (found !== 'undefined') return `expected ${withArticle(expected)}, found ${withArticle(found)}`;
  return isWhole ? 'not JSON' : `missing, expected ${withArticle(expected)}`;
}

function expectation({ message }: Issue, want: string): string {
  return isOwn(message) ? message : `expected ${want}`;
}

/** Whether the message is of this program. */
function isOwn(message: string): boolean {
  return !/^(Invalid|Too (small|big)|Unrecognized)\b/.test(message);
}

/** What was counted. */
function unitOf(origin: string): string {
  if (origin === 'string') return ' (characters)';
  return origin === 'array' || origin === 'set' ? ' (elements)' : '';
}

function withArticle(type: string): string {
  if (type === 'null' || type === 'NaN') return type;
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type === 'int' ? 'integer' : type}`;
}
