package discover

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// catalogue lists tools like those of common servers, one per line: server.name(arguments):
// description.
const catalogue = `
github.search_issues(query, sort, order, perPage): Search for issues and pull requests across GitHub repositories using GitHub's search syntax
github.search_repositories(query, page): Search for GitHub repositories by name, description, topics or other metadata
github.search_code(query, page): Fast and precise code search across all GitHub repositories
github.create_issue(owner, repo, title, body, labels, assignees): Create a new issue in a GitHub repository with a title and body
github.update_issue(owner, repo, issue_number, title, body, state): Update an existing issue: its title, body, state, labels or assignees
github.get_issue(owner, repo, issue_number): Get details of a specific issue in a GitHub repository
github.list_issues(owner, repo, state, labels): List issues in a GitHub repository, filtered by state and labels
github.add_issue_comment(owner, repo, issue_number, body): Add a comment to a specific issue
github.create_pull_request(owner, repo, title, head, base, draft): Open a new pull request in a GitHub repository
github.merge_pull_request(owner, repo, pullNumber, merge_method): Merge a pull request
github.list_pull_requests(owner, repo, state): List pull requests in a GitHub repository
github.get_pull_request_files(owner, repo, pullNumber): Get the files changed in a pull request
github.get_file_contents(owner, repo, path, branch): Get the contents of a file or directory from a GitHub repository
github.create_or_update_file(owner, repo, path, content, message, sha): Create or update a single file in a GitHub repository
github.push_files(owner, repo, branch, files, message): Push multiple files to a GitHub repository in a single commit
github.create_branch(owner, repo, branch, from_branch): Create a new branch in a GitHub repository
github.list_commits(owner, repo, sha): Get the list of commits of a branch in a GitHub repository
github.fork_repository(owner, repo, organization): Fork a GitHub repository to your account or organization
github.list_notifications(filter, since): List all notifications of the user, such as mentions and review requests
filesystem.read_text_file(path, head, tail): Read the complete contents of a file from the file system as text
filesystem.read_media_file(path): Read an image or audio file. Returns the base64 encoded data and MIME type
filesystem.read_multiple_files(paths): Read the contents of multiple files simultaneously
filesystem.write_file(path, content): Create a new file or completely overwrite an existing file with new content
filesystem.edit_file(path, edits, dryRun): Make line-based edits to a text file. Returns a git-style diff
filesystem.create_directory(path): Create a new directory or ensure a directory exists
filesystem.list_directory(path): Get a detailed listing of all files and directories in a specified path
filesystem.directory_tree(path, excludePatterns): Get a recursive tree view of files and directories as a JSON structure
filesystem.move_file(source, destination): Move or rename files and directories
filesystem.search_files(path, pattern, excludePatterns): Recursively search for files and directories matching a pattern
filesystem.get_file_info(path): Retrieve detailed metadata about a file or directory: size, creation time, permissions
slack.slack_post_message(channel_id, text): Post a new message to a Slack channel
slack.slack_reply_to_thread(channel_id, thread_ts, text): Reply to a specific message thread in Slack
slack.slack_add_reaction(channel_id, timestamp, reaction): Add a reaction emoji to a message
slack.slack_list_channels(limit, cursor): List public or pre-defined channels in the workspace with pagination
slack.slack_get_channel_history(channel_id, limit): Get recent messages from a channel
slack.slack_get_users(cursor, limit): Get a list of all users in the workspace with their basic profile information
slack.slack_get_user_profile(user_id): Get detailed profile information for a specific user
memory.create_entities(entities): Create multiple new entities in the knowledge graph
memory.create_relations(relations): Create multiple new relations between entities in the knowledge graph. Relations should be in active voice
memory.add_observations(observations): Add new observations to existing entities in the knowledge graph
memory.delete_entities(entityNames): Delete multiple entities and their associated relations from the knowledge graph
memory.read_graph(): Read the entire knowledge graph
memory.search_nodes(query): Search for nodes in the knowledge graph based on a query
memory.open_nodes(names): Open specific nodes in the knowledge graph by their names
calendar.listEvents(timeMin, timeMax, calendarId): List the events of a calendar between two points in time
calendar.createEvent(summary, start, end, attendees): Create a calendar event and invite attendees
calendar.findFreeSlots(attendees, duration): Find when all attendees are free
calendar.getHTTPLinkForEvent(eventId): Link to an event for use in a browser
db.query(sql, params): Run a read-only SQL statement and return the rows
db.execute(sql): Run a SQL statement that changes data
db.list-tables(schema): List the tables of a schema
db.describe-table(table): Columns, types and indexes of a table
weather.get_forecast(latitude, longitude, days): Weather forecast for a location
weather.get_alerts(state): Weather alerts for a US state
web.fetch(url, max_length): Fetch a URL and extract its contents as markdown
web.screenshot(url, width): Take a picture of a web page
web.registerWebhook(url, events): Have events sent to a URL
`

// readCatalogue returns the tools of the catalogue, and their names as server.name.
func readCatalogue() (tools []Tool, names []string) {
	for line := range strings.SplitSeq(strings.TrimSpace(catalogue), "\n") {
		call, description, _ := strings.Cut(line, "): ")
		name, arguments, _ := strings.Cut(call, "(")
		server, own, _ := strings.Cut(name, ".")
		tools = append(tools, tool(server, own, description, arguments))
		names = append(names, name)
	}
	return tools, names
}

func tool(server, name, description, arguments string) Tool {
	properties := map[string]any{}
	for argument := range strings.SplitSeq(arguments, ", ") {
		if argument != "" {
			properties[argument] = map[string]any{"type": "string"}
		}
	}
	return Tool{Server: server, Name: name, Definition: fmt.Appendf(nil,
		`{"name":%s,"description":%s,"inputSchema":{"type":"object","properties":%s}}`,
		wire.Quote(name), wire.Quote(description), wire.Marshal(properties))}
}

// manyTools returns n different tools of several servers.
func manyTools(n int) []Tool {
	all, _ := readCatalogue()
	objects := strings.Fields("invoice order customer shipment product warehouse contract employee payroll asset ticket project milestone sprint board widget dashboard metric alert incident runbook deployment cluster node volume snapshot image container secret policy role group tenant")
	tools := make([]Tool, n)
	for i := range tools {
		t := all[i%len(all)]
		object := objects[i/len(all)%len(objects)]
		tools[i] = Tool{
			Server:     fmt.Sprintf("%s%d", t.Server, i/len(all)/len(objects)),
			Name:       fmt.Sprintf("%s_%s%d", t.Name, object, i/len(all)),
			Definition: []byte(strings.Replace(string(t.Definition), `"description":"`, `"description":"For each `+object+`: `, 1)),
		}
	}
	return tools
}
