"""Chats to rows of tokens with labels: the parts of prepare_chat.py."""
